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
