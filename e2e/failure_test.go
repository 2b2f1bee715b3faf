package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// awaitPhase waits until machine n sees another one in a phase.
func (c *cluster) awaitPhase(t *testing.T, n int, machine, phase string) {
	t.Helper()
	until(t, fmt.Sprintf("m%d sees %s %s", n, machine, phase), func() bool { return c.phaseOf(t, n, machine) == phase })
}

func (c *cluster) phaseOf(t *testing.T, n int, machine string) string {
	t.Helper()
	got, err := c.lab.Client(n).Machines(context.WithoutCancel(t.Context()), &apiv1.MachinesRequest{})
	if err != nil {
		return err.Error()
	}
	for _, m := range got.GetMachines() {
		if m.GetName() == machine {
			return m.GetPhase()
		}
	}
	return "unknown"
}

// awaitVoters waits until all machines of the lab vote, and nobody else does.
func (c *cluster) awaitVoters(t *testing.T) {
	t.Helper()
	for n := 1; n <= machines; n++ {
		until(t, fmt.Sprintf("m%d knows of %d voters", n, machines), func() bool {
			got, err := c.lab.Client(n).Debug(t.Context(), &apiv1.DebugRequest{})
			return err == nil && got.GetFigures()["voters"] == machines
		})
	}
}

// numberOf is the lab's number of a machine.
func numberOf(t *testing.T, machine string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(machine, "m%d", &n); err != nil {
		t.Fatalf("%q is no machine of the lab: %v", machine, err)
	}
	return n
}

// laboratory runs a command of the lab that must succeed.
func (c *cluster) laboratory(t *testing.T, verb string, args ...string) {
	t.Helper()
	if a := c.program(t, "", append([]string{"lab", verb, "--name", labName}, args...)...); a.code != 0 {
		t.Fatalf("lab %s %v: %v", verb, args, a)
	}
}

// whole makes the lab whole again after a test that broke it, and waits until every
// machine sees every other. What else tidies up needs that, and is registered before.
func (c *cluster) whole(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		c.laboratory(t, "heal")
		for n := 1; n <= machines; n++ {
			c.laboratory(t, "start", fmt.Sprint(n))
		}
		for n := 1; n <= machines; n++ {
			for m := 1; m <= machines; m++ {
				c.awaitPhase(t, n, fmt.Sprintf("m%d", m), "ready")
			}
		}
	})
}

// other is a machine that is not among the given ones.
func other(not ...string) int {
	for n := 1; n <= machines; n++ {
		if !strings.Contains(strings.Join(not, " "), fmt.Sprintf("m%d", n)) {
			return n
		}
	}
	return 0
}

// A peer that ends, well or badly, leaves its containers running, and the next one
// takes them over as they are.
func TestContainersOutliveTheirPeer(t *testing.T) {
	c := need(t)
	c.remove(t, "survivor")
	c.whole(t)
	c.apply(t, 1, "alice", podSpec{name: "survivor", args: serve}.String())
	before := c.awaitReady(t, 1, "survivor")
	home := numberOf(t, before.status("machine"))
	away := other(before.status("machine"))
	pid := before.number("containers.app.pid")
	c.awaitAnswer(t, away, before, "hello from survivor\n")

	for name, end := range map[string]func() error{
		"kill -9": func() error { return c.lab.KillPeer(home) },
		"SIGTERM": func() error { return c.lab.Stop(home) },
	} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !alive(pid) {
			t.Fatalf("%s of the peer ended the container", name)
		}
		if got := fetchFrom(c, away, before.url(t)); got != "hello from survivor\n" {
			t.Errorf("%s of the peer: from m%d the pod answers %q", name, away, got)
		}
		c.laboratory(t, "start", fmt.Sprint(home))
		after := c.awaitReady(t, home, "survivor")
		if !alive(pid) || after.number("containers.app.pid") != pid || after.number("containers.app.restarts") != 0 {
			t.Errorf("%s: the container was not adopted: process %d, %v", name, pid, after)
		}
		if got := c.must(t, away, "exec", "survivor", "--", "/bin/hello", "--get", "http://[::1]:8080/"); got != "hello from survivor\n" {
			t.Errorf("%s: after the restart of the peer: %q", name, got)
		}
	}
	if got := c.must(t, home, "logs", "survivor"); got != listening+"\n" {
		t.Errorf("its log is %q", got)
	}
	// What it does is seen again: its end is noticed.
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.await(t, away, "survivor", "started again", func(s seen) bool {
		return s.ready() && s.number("containers.app.pid") != pid && s.number("containers.app.restarts") == 1
	})
}

// What a peer acknowledged it still knows after kill -9.
func TestKilledPeerLosesNothing(t *testing.T) {
	c := need(t)
	c.whole(t)
	for round := range 5 {
		value := fmt.Sprint("round-", round)
		c.must(t, 1, "machine", "label", "m1", "kept="+value)
		if err := c.lab.KillPeer(1); err != nil {
			t.Fatal(err)
		}
		c.laboratory(t, "start", "1")
		if got := c.must(t, 1, "get", "machine/m1", "-o", "yaml"); !strings.Contains(got, "kept: "+value) {
			t.Fatalf("the label of round %d is lost:\n%s", round, got)
		}
	}
	c.must(t, 1, "machine", "label", "m1", "kept-")
}

func TestPodsOfADeadMachineRunElsewhere(t *testing.T) {
	c := need(t)
	c.remove(t, "refugee", "waiter")
	c.must(t, 1, "machine", "label", "m3", "here=yes")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", "m3", "here-") })
	refugee := podSpec{name: "refugee", args: serve, memory: "64Mi", require: "here: yes"}
	waiter := podSpec{name: "waiter", args: serve, require: "here: yes", more: "  partition: pinned\n"}
	c.apply(t, 1, "alice", set(refugee, waiter))
	c.awaitReady(t, 1, "refugee")
	c.awaitReady(t, 1, "waiter")
	refugee.require = "" // from now on it may run anywhere, and stays all the same
	c.apply(t, 1, "alice", refugee.String())
	before := c.awaitRev(t, 1, "refugee", "2")
	if before.status("machine") != "m3" {
		t.Fatalf("it moved to %s without need", before.status("machine"))
	}

	c.awaitVoters(t)
	c.whole(t)
	c.laboratory(t, "kill", "3")
	c.awaitPhase(t, 1, "m3", "silent")
	says(t, c.must(t, 1, "why", "machine/m3"), "machine/m3", "silent for", "as seen from m1")
	after := c.await(t, 1, "refugee", "elsewhere", func(s seen) bool { return s.ready() && s.status("machine") != "m3" })
	if after.status("address") != before.status("address") {
		t.Errorf("its address was %s and is %s", before.status("address"), after.status("address"))
	}
	c.awaitAnswer(t, 1, before, "hello from refugee\n")
	c.awaitAnswer(t, 2, before, "hello from refugee\n")
	for _, n := range []int{1, 2} {
		says(t, c.must(t, n, "why", "waiter"), "blocked: pod/waiter is on machine m3, which has been silent for",
			fmt.Sprintf("as seen from m%d", n), "pinned", "to do:")
		a := c.ask(t, n, "", "get")
		says(t, a.err+a.out, "m3")
	}
	// What is to be taken down on a machine that nobody hears waits for it, and says so.
	c.must(t, 2, "delete", "waiter")
	says(t, c.must(t, 1, "why", "waiter"), "pod/waiter", "m3", "silent")
	refuses(t, c.ask(t, 1, "", "exec", "waiter", "--", "/bin/hello"), "m3")

	// Back again, it does not start what runs elsewhere, and lets go of what is deleted.
	c.laboratory(t, "start", "3")
	c.awaitGone(t, 3, "waiter")
	s := c.awaitReady(t, 3, "refugee")
	if s.status("machine") != after.status("machine") || s.number("containers.app.pid") != after.number("containers.app.pid") {
		t.Errorf("the pod was disturbed by its old machine: %v, then %v", after, s)
	}
	c.awaitAnswer(t, 3, before, "hello from refugee\n")
}

// A machine that boots with no other in reach runs again what it had.
func TestRebootWithoutAnyOtherMachine(t *testing.T) {
	c := need(t)
	c.remove(t, "hermit", "hermits-friend")
	c.must(t, 1, "machine", "label", "m2", "cell=yes")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", "m2", "cell-") })
	c.apply(t, 1, "alice", podSpec{name: "hermit", args: serve, require: "cell: yes"}.String())
	before := c.awaitReady(t, 2, "hermit")
	c.whole(t)

	c.laboratory(t, "kill", "2")
	if alive(before.number("containers.app.pid")) {
		t.Fatal("a power cut left the container running")
	}
	c.laboratory(t, "kill", "1")
	c.laboratory(t, "kill", "3")
	c.laboratory(t, "start", "2")
	after := c.await(t, 2, "hermit", "back", func(s seen) bool {
		return s.ready() && s.number("containers.app.pid") != before.number("containers.app.pid")
	})
	if after.status("address") != before.status("address") {
		t.Errorf("its address was %s and is %s", before.status("address"), after.status("address"))
	}
	if got := c.must(t, 2, "exec", "hermit", "--", "/bin/hello", "--get", after.url(t)); got != "hello from hermit\n" {
		t.Errorf("it answers %q", got)
	}
	// It takes orders, and says that nobody else knows of them.
	a := c.ask(t, 2, "", "--as", "alice", "run", "hermits-friend", "--image", helloImage)
	if a.code != 0 {
		t.Fatal(a)
	}
	says(t, a.err, "on this machine's disk only")
}

func TestDrainMovesThePodsAwayAndResumeTakesThemAgain(t *testing.T) {
	c := need(t)
	c.remove(t, "drained", "homeless")
	c.apply(t, 1, "alice", podSpec{name: "drained", args: serve, memory: "64Mi"}.String())
	before := c.awaitReady(t, 1, "drained")
	home := before.status("machine")
	t.Cleanup(func() { c.must(t, 1, "machine", "resume", home) })

	c.must(t, 2, "machine", "drain", home)
	after := c.await(t, 2, "drained", "elsewhere", func(s seen) bool { return s.ready() && s.status("machine") != home })
	if after.status("address") != before.status("address") {
		t.Errorf("its address was %s and is %s", before.status("address"), after.status("address"))
	}
	c.await(t, 3, "machine/"+home, "drained", func(s seen) bool {
		return s.GetGoal() == api.TargetDrained && s.GetObject().GetVerdict() == "converged"
	})
	says(t, c.must(t, 3, "machine", "ls"), home, "drained")

	// Only the drained machine has the label: why says so, and resume mends it.
	c.must(t, 1, "machine", "label", home, "only=here")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", home, "only-") })
	c.apply(t, 1, "alice", podSpec{name: "homeless", args: serve, require: "only: here"}.String())
	c.awaitText(t, 3, "homeless", blockedBy(`schedule: no machine fits: .*`+home+` is drained`))
	c.must(t, 1, "machine", "resume", home)
	if s := c.awaitReady(t, 2, "homeless"); s.status("machine") != home {
		t.Errorf("it runs on %s", s.status("machine"))
	}
}
