package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/api"
	"starling.dev/starling/netstack/linux"
)

// within runs f on a thread in the pod's network namespace. The sockets that f makes stay
// there.
func (s seen) within(f func() error) error {
	fd, err := linux.OpenNamespace(s.status("network.namespace"))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// machine is the number of the pod's machine.
func (s seen) machine(t *testing.T) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(s.status("machine"), "m%d", &n); err != nil {
		t.Fatalf("the pod is on machine %q: %v", s.status("machine"), err)
	}
	return n
}

// fetch is what the program in a pod's container gets from a URL, or its complaint.
func (c *cluster) fetch(t *testing.T, pod, url string) string {
	t.Helper()
	a := c.ask(t, 1, "", "exec", "pod/"+pod, "--", "/bin/hello", "--get", url)
	return strings.TrimSpace(a.out + a.err)
}

func (c *cluster) awaitFetch(t *testing.T, pod, url, want string) {
	t.Helper()
	last := ""
	until(t, fmt.Sprintf("pod %s gets %q from %s", pod, want, url), func() bool {
		last = c.fetch(t, pod, url)
		return strings.Contains(last, want)
	})
}

// awaitService waits until the service is as machine n sees it, and returns its address.
func (c *cluster) awaitService(t *testing.T, n int, name string) string {
	t.Helper()
	s := c.await(t, n, "service/"+name, "ready", func(s seen) bool { return s.GetObject().GetVerdict() == "converged" })
	return api.Fields(s.GetObject().GetStatus()).String("status.address")
}

// client speaks HTTP from the pod's namespace, with a new connection for each request.
func (s seen) client() *http.Client { return clientWithin(s.within, 5*time.Second) }

// clientWithin speaks HTTP over sockets that are made by within, with a new connection for
// each request.
func clientWithin(within func(func() error) error, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = within(func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}}
}

// get returns the body of an answer.
func get(client *http.Client, url string) (string, error) {
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is %s", answer.Status)
	}
	return strings.TrimSpace(string(raw)), err
}
