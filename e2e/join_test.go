package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// rows counts the machines that a list shows.
func rows(list string) int { return strings.Count(strings.TrimSpace(list), "\n") }

func TestTokensThatAreRefused(t *testing.T) {
	c := need(t)
	g := c.guest(t)
	token := c.invite(t, 1)

	refuses(t, g.join(t, "nonsense"), "token", "peer invite")
	refuses(t, g.join(t, mistyped(token)), "token", "peer invite")
	refuses(t, g.join(t, token[:len(token)/2]), "token", "peer invite")
	refuses(t, g.join(t, c.invite(t, 1, "--ttl", "1ms")), "expired", "peer invite")
	refuses(t, g.join(t, token, "--name=m1"), "m1", "--replace")
	refuses(t, g.join(t, token, "--name=No Name"), "No Name")

	// A token of another cluster, shown to this one.
	g.start(t, "up", "--cluster=other")
	_, foreign, _ := strings.Cut(strings.TrimSpace(g.ask(t, "invite").out), "--token ")
	g.stop(t, syscall.SIGTERM)
	refuses(t, g.join(t, token), "belongs to cluster", "peer leave --purge")
	if a := g.run(t, g.with("leave", "--purge")...); a.code != 0 {
		t.Fatal(a)
	}
	refuses(t, g.run(t, g.with("join", "--no-run", fmt.Sprintf("%s:7947", c.lab.Address(1)), "--token", foreign)...), "cluster")

	if got := c.must(t, 1, "machine", "ls"); rows(got) != machines {
		t.Errorf("somebody joined:\n%s", got)
	}
	// All that did the good token no harm; and it works once.
	if a := g.join(t, token); a.code != 0 {
		t.Fatal(a)
	}
	g.forget(t)
	refuses(t, g.join(t, token, "--name=m5"), "used", "peer invite")
	c.must(t, 2, "machine", "remove", g.name)
	c.awaitMachines(t, machines)
}

// mistyped changes one character in the middle.
func mistyped(token string) string {
	at, wrong := len(token)/2, "q"
	if token[at] == 'q' {
		wrong = "p"
	}
	return token[:at] + wrong + token[at+1:]
}

// awaitMachines waits until every machine lists so many.
func (c *cluster) awaitMachines(t *testing.T, count int) {
	t.Helper()
	for n := 1; n <= machines; n++ {
		until(t, fmt.Sprintf("m%d lists %d machines", n, count), func() bool {
			return rows(c.must(t, n, "machine", "ls")) == count
		})
	}
}

func TestMachineJoinsRunsPodsAndIsRemoved(t *testing.T) {
	c := need(t)
	g := c.newcomer(t, 3, "new=yes")
	c.remove(t, "settler", "native")
	c.apply(t, 1, "alice", set(
		podSpec{name: "settler", args: serve, require: "new: yes"},
		podSpec{name: "native", args: serve, memory: "32Mi"},
	))
	settler := c.awaitReady(t, 2, "settler")
	native := c.awaitReady(t, 2, "native")
	if settler.status("machine") != g.name {
		t.Errorf("the pod that requires the new machine is on %s", settler.status("machine"))
	}
	says(t, c.must(t, 1, "exec", "settler", "--", "/bin/hello", "--get", native.url(t)), "hello from native")
	says(t, c.must(t, 3, "exec", "native", "--", "/bin/hello", "--get", settler.url(t)), "hello from settler")

	// Removed, it is nobody: its pods go, and it can't come back as it is.
	c.must(t, 2, "machine", "remove", g.name, "--reason", "its disk died")
	c.awaitMachines(t, machines)
	refuses(t, c.ask(t, 1, "", "delete", "machine/m1"), "machine/m1 belongs to the cluster", "peer machine drain m1", "peer machine remove m1")
	refuses(t, c.ask(t, 1, "", "switch", "machine/m1", "deleted"), "machine/m1 belongs to the cluster")
	says(t, c.awaitText(t, 1, "machine/"+g.name, whyOnly("was removed from the cluster; this is what is left of it")), "peer delete machine/"+g.name)
	says(t, c.awaitText(t, 1, "settler", blockedBy(`schedule: no machine has the label new=yes`)), "blocked")
	g.awaitFarewell(t)
	refusesWith(t, 6, g.run(t, g.with("up")...), "was removed from the cluster", "its disk died", "peer leave --purge")
}

// A machine that was down when it was removed is told when it is back: it ends its pods, and
// does not start again.
func TestMachineRemovedWhileDownIsTold(t *testing.T) {
	c := need(t)
	g := c.newcomer(t, 1, "new=yes")
	c.remove(t, "settler", "service/web")
	c.apply(t, 1, "alice", join(service("web", ""), podSpec{name: "settler", args: serve, require: "new: yes", more: "  labels: {app: web}\n"}.String()))
	pid := c.awaitReady(t, 2, "settler").number("containers.app.pid")
	g.stop(t, syscall.SIGKILL)
	c.must(t, 2, "machine", "remove", g.name, "--reason", "sold")
	c.awaitMachines(t, machines)
	if !alive(pid) {
		t.Fatal("the pod ended before its machine heard of the removal")
	}

	g.begin(t, "up")
	g.awaitFarewell(t)
	if alive(pid) {
		t.Error("the pod goes on")
	}
	refusesWith(t, 6, g.run(t, g.with("up")...), "was removed from the cluster", "sold", "peer leave --purge")
}

func TestReinstalledMachineTakesItsPlaceAgain(t *testing.T) {
	c := need(t)
	g := c.guest(t)
	if a := g.join(t, c.invite(t, 1)); a.code != 0 {
		t.Fatal(a)
	}
	g.start(t, "up")
	c.awaitMachines(t, machines+1)
	g.stop(t, syscall.SIGKILL)
	g.forget(t)

	token := c.invite(t, 2)
	refuses(t, g.join(t, token), g.name, "--replace")
	refuses(t, g.join(t, token, "--replace", g.name), g.name, "is alive", "only a silent machine can be replaced")
	c.awaitPhase(t, 2, g.name, "silent")
	if a := g.join(t, token, "--replace", g.name); a.code != 0 {
		t.Fatal(a)
	}
	g.start(t, "up")
	c.awaitMachines(t, machines+1)
	if a := g.ask(t, "image", "load", "-f", c.archive(helloImage)); a.code != 0 {
		t.Fatal(a)
	}
	c.must(t, 1, "machine", "label", g.name, "again=yes")
	c.remove(t, "resettled")
	c.apply(t, 1, "alice", podSpec{name: "resettled", args: serve, require: "again: yes"}.String())
	if s := c.awaitReady(t, 3, "resettled"); s.status("machine") != g.name {
		t.Errorf("it runs on %s", s.status("machine"))
	}

	// It leaves in good order: its pods move first, where they can.
	c.apply(t, 1, "alice", podSpec{name: "resettled", args: serve}.String())
	c.awaitRev(t, 3, "resettled", "2")
	if a := g.run(t, g.with("leave")...); a.code != 0 {
		t.Fatal(a)
	}
	c.awaitMachines(t, machines)
	if s := c.awaitReady(t, 1, "resettled"); s.status("machine") == g.name {
		t.Errorf("it still runs on %s, which has left", g.name)
	}

	// Whatever comes under its name begins ready, though it was drained to leave.
	g.stop(t, syscall.SIGTERM)
	g.forget(t)
	if a := g.join(t, c.invite(t, 1)); a.code != 0 {
		t.Fatal(a)
	}
	g.start(t, "up")
}
