package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"testing"
)

// load asks for a URL from a pod, again and again, until it is stopped.
type load struct {
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex // guards what follows
	asked  int
	by     map[string]int // answers, by what they say
	failed []error
}

// askers is how many requests are under way at any time.
const askers = 4

func startLoad(pod seen, url string) *load { return startLoadBy(pod.client(), url) }

func startLoadBy(client *http.Client, url string) *load {
	l := &load{stop: make(chan struct{}), by: map[string]int{}}
	for range askers {
		l.done.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
					l.note(get(client, url))
				}
			}
		})
	}
	return l
}

func (l *load) note(answer string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err != nil {
		l.failed = append(l.failed, err)
		return
	}
	l.by[answer]++
}

func (l *load) answers(from string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by["hello from "+from]
}

// end stops the load, and fails the test if any request did.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	t.Logf("%d requests: %v", l.asked, l.by)
	if len(l.failed) > 0 {
		t.Errorf("%d of %d requests failed, the first with: %v", len(l.failed), l.asked, l.failed[0])
	}
}

// A service is there through restarts of all its pods, one after the other, and through
// the end of one of them: under constant load no request fails.
func TestServiceThroughRollingRestarts(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/web1", "pod/web2", "pod/web3", "pod/client", "service/web")
	c.apply(t, 1, "alice", join(web("web1"), web("web2"), web("web3"), podSpec{name: "client", args: serve}.String(), service("web", "  address: true\n")))
	for _, name := range []string{"web1", "web2", "web3"} {
		c.awaitReady(t, 1, name)
	}
	client := c.awaitReady(t, 1, "client")
	url := "http://[" + c.awaitService(t, 1, "web") + "]/"
	until(t, "the service answers", func() bool {
		_, err := get(client.client(), url)
		return err == nil
	})
	l := startLoad(client, url)
	for range 2 {
		for _, name := range []string{"web1", "web2", "web3"} {
			before := c.current(t, 1, name).number("containers.app.pid")
			c.must(t, 2, "restart", "pod/"+name)
			c.await(t, 1, name, "restarted", func(s seen) bool { return s.ready() && s.number("containers.app.pid") != before })
			count := l.answers(name)
			until(t, name+" is back in the service", func() bool { return l.answers(name) > count })
		}
	}
	c.must(t, 3, "delete", "pod/web3")
	c.awaitGone(t, 1, "web3")
	l.end(t)
}

// flush empties a machine's nftables, as somebody may do by hand.
func (c *cluster) flush(t *testing.T, n int) {
	t.Helper()
	if err := c.lab.Within(n, exec.Command("nft", "flush", "ruleset").Run); err != nil {
		t.Fatal(err)
	}
}

// The services of a machine are repaired when somebody flushes them, and are there for
// the machine itself as well.
func TestServicesAreRepaired(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/web1", "service/web")
	c.apply(t, 1, "alice", join(web("web1"), service("web", "  address: true\n")))
	c.awaitReady(t, 1, "web1")
	url := "http://[" + c.awaitService(t, 1, "web") + "]/"
	for n := 1; n <= machines; n++ {
		answers := func() bool { return fetchFrom(c, n, url) == "hello from web1\n" }
		until(t, fmt.Sprintf("m%d reaches the service", n), answers)
		c.flush(t, n)
		until(t, fmt.Sprintf("m%d reaches the service again", n), answers)
	}
}
