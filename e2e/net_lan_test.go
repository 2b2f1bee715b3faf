package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/lab"
	"starling.dev/starling/netstack/linux/lan"
)

const lanName = "e2e-lan"

// lanLab brings up a second lab, of two machines, whose pods have addresses of the LAN,
// and with one computer on its LAN that is no machine of the cluster.
func lanLab(t *testing.T) (c *cluster, stranger *lan.LAN) {
	t.Helper()
	c = &cluster{dir: need(t).dir, peer: need(t).peer}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	t.Cleanup(cancel)
	down := func() {
		if err := c.command(ctx, "lab", "down", "--name", lanName); err != nil {
			t.Error(err)
		}
	}
	down()
	t.Cleanup(down)
	if err := c.command(ctx, "lab", "up", "--name", lanName, "--nodes", "2", "--cpu", "2", "--memory", "1Gi", "--network", "lan"); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.lab, err = lab.Open(lab.Config{Name: lanName, Program: c.peer}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if err := c.command(ctx, "--socket", c.lab.Socket(n), "image", "load", "-f", c.archive(helloImage)); err != nil {
			t.Fatal(err)
		}
	}
	if stranger, err = lan.New(lan.Config{Name: lanName, Nodes: strangerNumber}); err != nil {
		t.Fatal(err)
	}
	if err := stranger.Up(ctx); err != nil {
		t.Fatal(err)
	}
	return c, stranger
}

// answering is a pod that is ready when it answers, on the machine with that label.
func answering(name, at string) string {
	return probed(name, serve, `readiness: {http: ":8080/ready", period: 200ms}`) + "  require: {at: " + at + "}\n"
}

// strangerNumber is the computer on the LAN that runs no peer.
const strangerNumber = 3

// The pods of a cluster whose network is the LAN are neighbours of everybody on it, at
// once, and keep their addresses when they move. Machines that join find the mode in the
// cluster. The other lab on this computer sees nothing of it.
func TestLan(t *testing.T) {
	c, stranger := lanLab(t)
	node := stranger.Node(1)
	c.apply(t, 1, "alice", join(answering("one", "m1"), answering("two", "m2")))
	for n := 1; n <= 2; n++ {
		c.must(t, 1, "machine", "label", lab.Name(n), "at="+lab.Name(n))
	}
	one, two := c.awaitReady(t, 1, "one"), c.awaitReady(t, 1, "two")
	for _, pod := range []seen{one, two} {
		if a := netip.MustParseAddr(pod.status("address")); !node.IPv6.Masked().Contains(a) {
			t.Fatalf("address %s is not of the LAN %s", a, node.IPv6.Masked())
		}
	}
	outside := func(url string) (string, error) { return get(lanClient(stranger, strangerNumber), url) }
	for name, ask := range map[string]func() (string, error){
		"pod to pod on another machine": func() (string, error) { return get(one.client(), two.url(t)) },
		"and back":                      func() (string, error) { return get(two.client(), one.url(t)) },
		"a stranger to a pod":           func() (string, error) { return outside(one.url(t)) },
		"a stranger to another":         func() (string, error) { return outside(two.url(t)) },
	} {
		begin := time.Now()
		answer, err := ask()
		took := time.Since(begin)
		// The kernel's own delay before a proxy answers would be 0.4 s on average.
		if err != nil || !strings.HasPrefix(answer, "hello from ") || took > 300*time.Millisecond {
			t.Errorf("%s: %q, %v, after %s", name, answer, err, took)
		}
	}
	c.awaitFetch(t, "one", "http://two.default.pod.cluster:8080/", "hello from two")
	if out := c.must(t, 1, "status", "machine/m2", "--net"); !strings.Contains(out, "proxy "+two.status("address")) {
		t.Errorf("the network of m2 shows no proxy for the pod:\n%s", out)
	}

	moved := c.moves(t, "one", func(url string) error { _, err := outside(url); return err }, func() {
		c.apply(t, 2, "alice", answering("one", "m2"))
	})
	if moved.status("machine") != "m2" || moved.status("address") != one.status("address") {
		t.Errorf("the pod is on %s at %s", moved.status("machine"), moved.status("address"))
	}
}

// lanClient speaks HTTP from a computer of a LAN, with a new connection for each request.
func lanClient(l *lan.LAN, n int) *http.Client {
	return clientWithin(func(f func() error) error { return l.Within(n, f) }, moveAsk)
}

// moveAsk is how long one request may take while a pod moves.
const moveAsk = 200 * time.Millisecond

// mostLost is how long a pod that moves may not be reached.
const mostLost = time.Second

// moves has a client ask the pod all the time while it moves to another machine, and
// returns the pod as it is then.
func (c *cluster) moves(t *testing.T, name string, ask func(url string) error, move func()) seen {
	t.Helper()
	before := c.current(t, 1, name)
	url := before.url(t)
	until(t, name+" answers", func() bool { return ask(url) == nil })
	stop, gap := make(chan struct{}), make(chan time.Duration)
	go func() {
		last, worst := time.Now(), time.Duration(0)
		for {
			if err := ask(url); err == nil {
				worst, last = max(worst, time.Since(last)), time.Now()
			}
			select {
			case <-stop:
				gap <- worst
				return
			default:
			}
		}
	}()
	move()
	after := c.await(t, 1, name, "ready on another machine", func(s seen) bool {
		return s.ready() && s.status("machine") != before.status("machine")
	})
	until(t, name+" answers at its new place", func() bool { return ask(url) == nil })
	close(stop)
	worst := <-gap
	t.Logf("the pod was out of reach for %s:\n%s", worst.Round(time.Millisecond), c.must(t, 1, "events", "pod/"+name))
	if worst > mostLost {
		t.Errorf("the pod was out of reach for %s, and %s is the most:\n%s", worst, mostLost, c.must(t, 1, "events", "pod/"+name))
	}
	return after
}

// In mode routed a pod keeps its address as well when it moves: the other machines get one
// route more.
func TestMoveWithAddress(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/mover")
	c.apply(t, 1, "alice", podSpec{name: "mover", args: serve}.String())
	before := c.awaitReady(t, 1, "mover")
	home := before.machine(t)
	from := clientWithin(func(f func() error) error { return c.lab.Within(other(lab.Name(home)), f) }, moveAsk)
	t.Cleanup(func() { c.must(t, 1, "machine", "resume", lab.Name(home)) })
	after := c.moves(t, "mover", func(url string) error { _, err := get(from, url); return err }, func() {
		c.must(t, 1, "machine", "drain", lab.Name(home))
	})
	if after.status("address") != before.status("address") {
		t.Errorf("the address was %s and is %s", before.status("address"), after.status("address"))
	}
	if fmt.Sprint(after.machine(t)) == fmt.Sprint(home) {
		t.Error("the pod did not move")
	}
}
