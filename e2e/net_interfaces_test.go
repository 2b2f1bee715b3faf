package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// wired is a pod on m2 with an interface on the machine's bridge "store9".
func wired(addresses string) string {
	return podSpec{name: "wired", args: serve, require: "store: yes", more: `  network:
    interfaces:
      storage: {attach: store9, addresses: [` + addresses + `]}
    routes:
      behind: {to: 203.0.113.0/24, via: 192.0.2.3, interface: storage}
`}.String()
}

// sh runs a script in a machine's namespace.
func (c *cluster) sh(t *testing.T, n int, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	if err := c.lab.Within(n, func() error { out, err := cmd.CombinedOutput(); return wrap(err, out) }); err != nil {
		t.Fatalf("on m%d: %s: %v", n, script, err)
	}
}

func wrap(err error, out []byte) error {
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// A pod has a second interface, on a bridge of its machine that leads to another machine: it
// waits for the bridge, which is named; what is flushed comes back; a change and a killed peer
// leave the container alone.
func TestFurtherInterface(t *testing.T) {
	c := need(t)
	c.remove(t, "wired")
	c.whole(t)
	c.must(t, 1, "machine", "label", "m2", "store=yes")
	const remove = "ip link delete store9 2>/dev/null || true; ip link delete store9p 2>/dev/null || true"
	t.Cleanup(func() { c.sh(t, 2, remove); c.must(t, 1, "machine", "label", "m2", "store-") })
	c.apply(t, 1, "alice", wired("192.0.2.7/24"))
	c.awaitWhy(t, 3, "wired", `network: interface storage attaches to store9: there is no such link on m2`)

	bridge := "ip link add store9 type bridge; ip link set store9 up"
	c.sh(t, 2, bridge+"; ip link add store9p type veth peer name store9q netns "+c.lan(t).Node(3).Namespace+"; ip link set store9p master store9 up")
	c.sh(t, 3, "ip link set store9q up; ip address add 192.0.2.3/24 dev store9q; ip address add 203.0.113.3/32 dev lo")
	t.Cleanup(func() { c.sh(t, 3, "ip address delete 203.0.113.3/32 dev lo") })
	first := c.awaitReady(t, 1, "wired")
	pid := first.number("containers.app.pid")
	answers := func(at string) {
		t.Helper()
		url := "http://" + at + ":8080"
		until(t, "m3 gets an answer from "+url, func() bool { return fetchFrom(c, 3, url) == "hello from wired\n" })
		if got := fetchFrom(c, 1, first.url(t)); got != "hello from wired\n" {
			t.Errorf("at its address in the cluster it answers %q", got)
		}
	}
	answers("192.0.2.7")
	if err := first.within(func() error {
		out, err := exec.Command("ip", "route", "get", "203.0.113.3").CombinedOutput()
		if err == nil && !strings.Contains(string(out), "via 192.0.2.3 dev storage src 192.0.2.7") {
			err = fmt.Errorf("the way to what is behind: %s", out)
		}
		return wrap(err, out)
	}); err != nil {
		t.Error(err)
	}

	c.sh(t, 2, `for l in $(ip -br link show master store9 | grep -o '^sli[0-9a-f]*'); do ip link delete $l; done`)
	answers("192.0.2.7")
	if err := c.lab.KillPeer(2); err != nil {
		t.Fatal(err)
	}
	answers("192.0.2.7")
	c.laboratory(t, "start", "2")
	c.apply(t, 1, "alice", wired("192.0.2.8/24"))
	answers("192.0.2.8")
	c.sh(t, 2, "ip link delete store9")
	c.awaitWhy(t, 3, "wired", `network: interface storage attaches to store9: there is no such link on m2`)
	c.sh(t, 2, bridge+"; ip link set store9p master store9")
	answers("192.0.2.8")
	if last := c.awaitReady(t, 1, "wired"); last.number("containers.app.pid") != pid || last.number("containers.app.restarts") != 0 {
		t.Errorf("the container was not left alone: process %d, then %d", pid, last.number("containers.app.pid"))
	}
}
