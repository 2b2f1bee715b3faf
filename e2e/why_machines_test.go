package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"starling.dev/starling/sched"
)

// here pins a pod to the machine that has the label.
func here(name, label string) podSpec {
	return podSpec{name: name, args: serve, memory: "32Mi", require: label + ": yes", more: "  partition: pinned\n"}
}

// label marks a machine until the test ends.
func (c *cluster) label(t *testing.T, machine, label string) {
	t.Helper()
	c.must(t, 1, "machine", "label", machine, label+"=yes")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", machine, label+"-") })
}

// silentMachine cuts the power of m3, on which two pods run.
func silentMachine(t *testing.T, c *cluster) {
	t.Helper()
	c.remove(t, "why-waits", "why-goes")
	c.label(t, "m3", "silent")
	c.apply(t, 1, "alice", set(here("why-waits", "silent"), here("why-goes", "silent")))
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "why-waits")
		c.awaitReady(t, n, "why-goes")
	}
	c.awaitVoters(t)
	c.whole(t)
	c.laboratory(t, "kill", "3")
	c.awaitPhase(t, 1, "m3", "silent")
	c.awaitPhase(t, 2, "m3", "silent")
	c.must(t, 2, "delete", "why-goes")
}

func silentCauses() []cause {
	return []cause{
		{
			name: "machine silent", key: "why-waits", at: []int{1, 2},
			says: ` is on machine m3, which has been silent for [\d.]+m?s, as seen from m\d; it is pinned, so it waits for its machine`,
			todo: "Bring the machine back. If it is lost for good, `peer machine remove m3`",
		}, {
			name: "machine silent, asked about itself", key: "machine/m3", at: []int{1, 2},
			says: ` has been silent for [\d.]+m?s, as seen from m\d`,
			todo: "Look after the machine",
		}, {
			name: "deletion on a silent machine", key: "why-goes", at: []int{1, 2},
			says: `: \w+ has to be taken down on m3, which has been silent for [\d.]+m?s`,
			todo: "take it out with `peer machine remove m3`",
		},
	}
}

func machineCauses() []cause {
	return []cause{
		{
			name: "machine drained, and a pod has no other place", key: "machine/m2", stage: drainedWithAPod,
			says: `: one pod still runs there; pod/why-homeless: schedule: no machine fits: m1 has no label homeless .*; m2 is drained; m3 has no label homeless`,
			todo: "Bring m2 back with `peer machine resume m2`", step: "drained waits for pod/why-homeless on m2",
			mend: func(t *testing.T, c *cluster, _ string) { c.must(t, 3, "machine", "resume", "m2") },
		}, {
			name: "executor silent", pod: podSpec{name: executedBy("m2"), args: serve}, at: []int{1, 3}, verdict: "progressing",
			stage: freeze,
			says:  `: schedule has been due on m2 for [\d.]+m?s, and m\d has heard nothing of m2 for [\d.]+m?s; another machine takes it over when that one is found silent`,
			todo:  "Look after the machine",
			mend:  func(*testing.T, *cluster, string) {}, // nobody has to do anything
		}, {
			name: "partition minority waiting", key: "why-across", at: []int{1}, stage: cutOff,
			says: ` is on machine m2, which has been silent for .*, as seen from m1; only 1 of 3 voters say so, and moving its pods takes a majority`,
			todo: "Mend the network",
		}, {
			name: "loop refused", key: "step/why-later", stage: clash,
			says: `: register: Allow: loops "whyfirst" and "whysecond" both claim "router:why"; one resource has one owner`,
			todo: "Change what the message points at", step: "register is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) { c.must(t, 2, "delete", "step/why-earlier") },
		}, {
			name: "disk full", key: "machine/m4", at: []int{guestNumber}, stage: fullDisk,
			says: `: m4 can't write: disk is full: \S+ has \d+ MiB free, \d+ MiB are needed; free some space there`,
			todo: "Free some space",
		}, {
			name: "clock skew", key: "machine/m4", stage: wrongClock,
			says: `: the clock of m4 runs (6m0s|5m5\ds) ahead of that of m\d, so that nothing m4 writes is taken here`,
			todo: "Set the clock",
		},
	}
}

// drainedWithAPod drains m2, where a pod runs that fits nowhere else.
func drainedWithAPod(t *testing.T, c *cluster) {
	t.Helper()
	c.remove(t, "why-homeless")
	c.label(t, "m2", "homeless")
	c.apply(t, 1, "alice", here("why-homeless", "homeless").String())
	c.awaitReady(t, 1, "why-homeless")
	c.must(t, 1, "machine", "drain", "m2")
	t.Cleanup(func() { c.must(t, 1, "machine", "resume", "m2") })
}

// executedBy returns the name of a pod that hashing gives to the machine.
func executedBy(machine string) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("why-executor-%d", i)
		if sched.Executor("pod/"+name, []string{"m1", "m2", "m3"}) == machine {
			return name
		}
	}
}

// freeze stops the peer of m2 without ending it: its connections stay open, and nothing
// comes over them.
func freeze(t *testing.T, c *cluster) {
	t.Helper()
	c.whole(t)
	pid := c.lab.PID(2)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
}

// cutOff leaves m1 alone, with a pod on the other side that it could run itself.
func cutOff(t *testing.T, c *cluster) {
	t.Helper()
	c.remove(t, "why-across")
	across := podSpec{name: "why-across", args: serve, memory: "32Mi", require: "across: yes"}
	c.label(t, "m2", "across")
	c.apply(t, 1, "alice", across.String())
	c.awaitReady(t, 1, "why-across")
	across.require = ""
	c.apply(t, 1, "alice", across.String())
	c.awaitRev(t, 1, "why-across", "2")
	c.awaitVoters(t)
	c.whole(t)
	c.laboratory(t, "partition", "1/2,3")
}

// clash has two loops claim one outside resource, each on its side of a cut: at the door
// the second would be refused.
func clash(t *testing.T, c *cluster) {
	t.Helper()
	c.remove(t, "step/why-later", "step/why-earlier")
	c.whole(t)
	c.laboratory(t, "partition", "1/2,3")
	c.apply(t, 1, "alice", "kind: Step\nname: why-earlier\nspec: {kind: Allow, loop: whyfirst, step: work, before: [ready], claims: ['router:why']}\n")
	c.apply(t, 2, "bob", "kind: Step\nname: why-later\nspec: {kind: Allow, loop: whysecond, step: work, before: [ready], claims: ['router:why']}\n")
	c.laboratory(t, "heal")
}

// fullDisk has a machine of its own run out of space, and write.
func fullDisk(t *testing.T, c *cluster) {
	t.Helper()
	g := c.guestOnTmpfs(t)
	g.start(t, "up", "--cluster=solo")
	fill(t, filepath.Join(g.data, "ballast"))
	refuses(t, g.ask(t, "machine", "label", g.name, "disk=full"), "disk is full")
}

// guestOnTmpfs plugs in a machine whose data directory is small.
func (c *cluster) guestOnTmpfs(t *testing.T) *guest {
	t.Helper()
	g := c.guest(t)
	if err := os.MkdirAll(g.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", g.data, "tmpfs", 0, fmt.Sprintf("size=%d", tmpfsSize)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.stop(t, syscall.SIGKILL)
		if err := unix.Unmount(g.data, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return g
}

// wrongClock has a machine join, and start again with a clock that runs ahead.
func wrongClock(t *testing.T, c *cluster) {
	t.Helper()
	g := c.guest(t)
	if a := g.join(t, c.invite(t, 1)); a.code != 0 {
		t.Fatal(a)
	}
	g.start(t, "up")
	c.awaitMachines(t, machines+1)
	g.stop(t, syscall.SIGTERM)
	g.start(t, "up", "--clock-offset=6m")
	if a := g.ask(t, "machine", "label", g.name, "clock=wrong"); a.code != 0 {
		t.Fatal(a)
	}
}
