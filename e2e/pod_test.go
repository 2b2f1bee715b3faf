package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// A spec handed to one machine runs on others, and pods of different machines reach
// each other at the addresses that their status names.
func TestPodsLandOnDifferentMachinesAndTalk(t *testing.T) {
	c := need(t)
	c.remove(t, "talk-a", "talk-b")
	c.apply(t, 3, "alice", set(
		podSpec{name: "talk-a", args: serve, cpu: "500m", memory: "64Mi"},
		podSpec{name: "talk-b", args: serve, cpu: "500m", memory: "64Mi"},
	))
	a, b := c.awaitReady(t, 3, "talk-a"), c.awaitReady(t, 3, "talk-b")
	if a.status("machine") == b.status("machine") {
		t.Errorf("both pods landed on %s", a.status("machine"))
	}
	for _, way := range []struct{ from, to seen }{{a, b}, {b, a}, {a, a}} {
		from, to := way.from.GetObject().GetKey().GetName(), way.to.GetObject().GetKey().GetName()
		got := c.must(t, 1, "exec", from, "--", "/bin/hello", "--get", way.to.url(t))
		if want := "hello from " + to + "\n"; got != want {
			t.Errorf("%s asked %s and got %q, want %q", from, to, got, want)
		}
	}
}

// url is where the pod's program listens.
func (s seen) url(t *testing.T) string {
	t.Helper()
	address, err := netip.ParseAddr(s.status("address"))
	if err != nil || !address.Is6() {
		t.Fatalf("the pod's address is %q: %v", s.status("address"), err)
	}
	return fmt.Sprintf("http://[%s]:8080/", address)
}

// Every machine tells the same of every object, and each names itself.
func TestEveryMachineTellsTheSame(t *testing.T) {
	c := need(t)
	c.remove(t, "same")
	c.apply(t, 2, "alice", podSpec{name: "same", args: serve}.String())
	at := c.awaitReady(t, 1, "same")
	for n := 1; n <= machines; n++ {
		s := c.awaitReady(t, n, "same")
		if s.status("address") != at.status("address") || s.status("machine") != at.status("machine") {
			t.Errorf("m%d says %v, m1 says %v", n, s.GetObject().GetStatus(), at.GetObject().GetStatus())
		}
		says(t, c.must(t, n, "status", "same"), "pod/same rev 1: converged", "✓ ready", "✓ container", "✓ schedule", "last lines:", "hello: listening on", fmt.Sprintf("as seen from m%d", n))
	}
	hash := func(n int) string { return c.must(t, n, "debug", "state-hash") }
	until(t, "equal hashes of the state", func() bool { return hash(1) == hash(2) && hash(2) == hash(3) })
}

// A pod is several containers that share one address.
func TestContainersOfAPodShareItsAddress(t *testing.T) {
	c := need(t)
	c.remove(t, "pair")
	spec := podSpec{name: "pair", args: serve}.String()
	spec = strings.Replace(spec, "    app:\n", "    helper:\n      image: localhost/hello:2\n      args: [--listen, \"[::]:8081\"]\n      env: {GREETING: psst}\n    app:\n", 1)
	c.apply(t, 1, "alice", spec)
	c.awaitReady(t, 1, "pair")
	if got := c.must(t, 2, "exec", "pair", "-c", "app", "--", "/bin/hello", "--get", "http://[::1]:8081/"); got != "psst from pair\n" {
		t.Errorf("app asked its helper and got %q", got)
	}
	refuses(t, c.ask(t, 2, "", "exec", "pair", "--", "/bin/hello"), "pod/pair has several containers; name one with -c: app, helper")
	for _, line := range []string{"logs machine/m1", "exec machine/m1 -- ls", "restart machine/m1", "cp machine/m1:/x ."} {
		refuses(t, c.ask(t, 2, "", strings.Fields(line)...), "machine/m1 is no pod, and only pods have containers")
	}
	refuses(t, c.ask(t, 2, "", "rollback", "pair", "--to", "9"), "there is no rev 9; the latest is 1; `peer history pod/pair` lists the revs")
	refuses(t, c.ask(t, 2, "", "get", "pair", "--at", "yesterday"), `"yesterday" is no rev`)
	refuses(t, c.ask(t, 2, "", "logs", "pair", "-c", "nobody"), "no container", "nobody")
}

// What the spec asks of the container reaches it.
func TestContainerGetsWhatItsSpecSays(t *testing.T) {
	c := need(t)
	c.remove(t, "limits")
	spec := podSpec{name: "limits", args: serve, cpu: "250m", memory: "48Mi"}.String()
	spec = strings.Replace(spec, "      args:", "      env: {GREETING: good day}\n      args:", 1)
	c.apply(t, 1, "alice", spec)
	s := c.awaitReady(t, 1, "limits")
	if got := c.must(t, 1, "exec", "limits", "--", "/bin/hello", "--get", "http://[::1]:8080/"); got != "good day from limits\n" {
		t.Errorf("the container's environment and host name gave %q", got)
	}
	if got := cgroupLimit(t, s.number("containers.app.pid"), "memory.limit_in_bytes", "memory.max"); got != "50331648" {
		t.Errorf("the kernel's memory limit is %s, want 48Mi", got)
	}
	quota := cgroupLimit(t, s.number("containers.app.pid"), "cpu.cfs_quota_us", "cpu.max")
	if !strings.HasPrefix(quota, "25000") {
		t.Errorf("the kernel's cpu limit is %q, want a quarter of a core", quota)
	}
}
