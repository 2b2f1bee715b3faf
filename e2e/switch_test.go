package e2e

import "testing"

// What becomes of a switch while another one is under way, at any machine.
func TestSwitchWhileAnotherIsUnderWay(t *testing.T) {
	c := need(t)
	c.remove(t, "torn")
	c.apply(t, 1, "alice", podSpec{name: "torn", image: "localhost/nosuch:1"}.String())
	c.await(t, 2, "torn", "on its way", func(s seen) bool { return s.GetObject().GetVerdict() == "failed" })
	refuses(t, c.ask(t, 2, "", "switch", "torn", "stopped", "--mode", "fail"), "pod/torn is being switched to ready", "--mode replace")
	at := func(n int, goal string) {
		t.Helper()
		c.await(t, n, "torn", goal, func(s seen) bool { return s.GetGoal() == goal && s.GetObject().GetVerdict() == "converged" })
	}
	c.must(t, 2, "switch", "torn", "stopped")
	at(3, "stopped")
	c.must(t, 3, "switch", "torn", "running", "--mode", "irreversible")
	c.await(t, 1, "torn", "on its way again", func(s seen) bool { return s.GetGoal() == "running" && s.GetObject().GetVerdict() == "failed" })
	refuses(t, c.ask(t, 1, "", "switch", "torn", "ready"), "pod/torn is being switched to running irreversibly", "peer switch pod/torn --cancel")
	says(t, c.must(t, 1, "status", "torn"), "goal running, irreversibly, from stopped")
	c.must(t, 1, "switch", "torn", "--cancel")
	at(2, "stopped")
	says(t, c.must(t, 3, "history", "torn"), "cancel the switch", "switch to running", "switch to stopped")
	refuses(t, c.ask(t, 3, "", "switch", "torn", "nowhere"), "its targets are", "stopped", "deleted")
	c.must(t, 1, "switch", "torn", "deleted")
	c.awaitGone(t, 3, "torn")
}

// A pod is brought to a target that a Target declares, from any machine, by `switch` and by
// a file, and back.
func TestSwitchToADeclaredTarget(t *testing.T) {
	c := need(t)
	c.remove(t, "staged", "target/staged")
	c.apply(t, 1, "alice", podSpec{name: "staged", args: serve}.String())
	address := c.awaitReady(t, 1, "staged").status("address")
	c.apply(t, 1, "alice", "kind: Target\nname: staged\nspec: {kind: Pod, requires: [image, network], doc: All is there that a container needs.}\n")
	c.await(t, 2, "target/staged", "part of the lifecycle", func(s seen) bool { return s.ready() })
	c.must(t, 2, "switch", "staged", "staged")
	c.must(t, 3, "wait", "staged", "--for", "staged")
	s := c.await(t, 3, "staged", "at rest there", func(s seen) bool {
		return s.GetGoal() == "staged" && s.GetObject().GetVerdict() == "converged" && s.status("running") != "true"
	})
	if s.status("address") != address {
		t.Errorf("it has the address %s, and had %s", s.status("address"), address)
	}
	says(t, c.must(t, 1, "explain", "pod.lifecycle.target"), "ready, running, stopped, staged")
	refuses(t, c.ask(t, 1, "", "delete", "target/staged"), "1 object (pod/staged)", "switch them to another first")
	c.apply(t, 3, "alice", podSpec{name: "staged", args: serve}.String()+"lifecycle: {target: staged}\n")
	c.must(t, 3, "switch", "staged", "ready")
	if got := c.awaitReady(t, 1, "staged").status("address"); got != address {
		t.Errorf("back again it has the address %s, and had %s", got, address)
	}
}
