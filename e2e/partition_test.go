package e2e

import "testing"

func TestPartitionedMinorityStartsNothingAndLosesNothing(t *testing.T) {
	c := need(t)
	c.remove(t, "majority", "minority", "written")
	c.labelSides(t)
	c.apply(t, 1, "alice", set(
		podSpec{name: "majority", args: serve, memory: "64Mi", require: "side: majority"},
		podSpec{name: "minority", args: serve, memory: "64Mi", require: "side: minority"},
	))
	left := c.awaitReady(t, 1, "minority")
	right := c.awaitReady(t, 1, "majority")
	// From now on both could run anywhere.
	c.apply(t, 1, "alice", set(podSpec{name: "majority", args: serve, memory: "64Mi"}, podSpec{name: "minority", args: serve, memory: "64Mi"}))
	c.awaitRev(t, 3, "majority", "2")
	c.awaitRev(t, 3, "minority", "2")

	t.Cleanup(func() { c.must(t, 1, "machine", "label", "m3", "by-") })
	c.awaitVoters(t)
	c.whole(t)
	c.laboratory(t, "partition", "1/2,3")
	c.awaitPhase(t, 1, "m2", "silent")
	c.awaitPhase(t, 1, "m3", "silent")
	c.awaitPhase(t, 2, "m1", "silent")

	// The majority replaces the pod that it can't hear. The minority goes on with what it
	// has, and starts nothing in place of what it can't hear.
	moved := c.await(t, 2, "minority", "in the majority", func(s seen) bool { return s.ready() && s.status("machine") != "m1" })
	if !alive(left.number("containers.app.pid")) {
		t.Error("the minority stopped what it had")
	}
	c.awaitText(t, 1, "majority", whyOnly(`on machine m2, which has been silent for .*, as seen from m1; only 1 of 3 voters say so, and moving its pods takes a majority`))
	if s := c.current(t, 1, "majority"); s.status("machine") != "m2" || s.number("containers.app.pid") != right.number("containers.app.pid") {
		t.Errorf("the minority placed the pod anew: %v", s)
	}

	// What is written in the minority stays there, and is merged when the cut is healed.
	a := c.apply(t, 1, "alice", podSpec{name: "written", args: serve, more: "  labels: {by: minority}\n"}.String())
	says(t, a.err, "on this machine's disk only")
	b := c.ask(t, 2, "", "--as", "bob", "machine", "label", "m3", "by=majority")
	if b.code != 0 {
		t.Fatal(b)
	}
	says(t, b.err, "held by m3 too")
	refuses(t, c.ask(t, 2, "", "get", "written"), "does not exist")

	c.laboratory(t, "heal")
	for n := 1; n <= machines; n++ {
		c.await(t, n, "minority", "where the majority had it", func(s seen) bool {
			return s.ready() && s.status("machine") == moved.status("machine") && s.number("containers.app.pid") == moved.number("containers.app.pid")
		})
		c.awaitReady(t, n, "written")
		c.await(t, n, "machine/m3", "labelled by the majority", func(s seen) bool {
			return s.GetObject().GetFields()["spec.labels.by"] == `"majority"`
		})
	}
	until(t, "the loser stops", func() bool { return !alive(left.number("containers.app.pid")) })
	if !alive(right.number("containers.app.pid")) || !alive(moved.number("containers.app.pid")) {
		t.Error("healing stopped what should run")
	}
	for n := 1; n <= machines; n++ {
		c.awaitAnswer(t, n, left, "hello from minority\n")
	}
	until(t, "equal hashes of the state", func() bool {
		hash := c.must(t, 1, "debug", "state-hash")
		return hash == c.must(t, 2, "debug", "state-hash") && hash == c.must(t, 3, "debug", "state-hash")
	})
}

// A cluster goes on with a bad network.
func TestLossyNetwork(t *testing.T) {
	c := need(t)
	c.remove(t, "lossy")
	t.Cleanup(func() { c.laboratory(t, "loss", "0") })
	c.laboratory(t, "loss", "20%")
	c.apply(t, 1, "alice", podSpec{name: "lossy", args: serve}.String())
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "lossy")
	}
}

// labelSides tells the sides of the cut apart, for pods to begin on one of them.
func (c *cluster) labelSides(t *testing.T) {
	t.Helper()
	c.must(t, 1, "machine", "label", "m1", "side=minority")
	c.must(t, 1, "machine", "label", "m2", "side=majority")
	t.Cleanup(func() {
		c.must(t, 1, "machine", "label", "m1", "side-")
		c.must(t, 1, "machine", "label", "m2", "side-")
	})
}
