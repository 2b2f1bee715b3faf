package e2e

import (
	"fmt"
	"strconv"
	"testing"
)

// deployment is a spec of three pods; the templates differ in their greeting.
func deployment(name string, percent int, next string) string {
	template := func(greeting, args string) string {
		return fmt.Sprintf(`{containers: {app: {image: %q, args: %s, env: {GREETING: %s}, probes: {readiness: {http: ":8080/ready", period: 300ms, failures: 2}}}}, stop: {grace: 2s}, grace: 2s}`,
			helloImage, args, greeting)
	}
	return fmt.Sprintf("kind: PinnedDeployment\nname: %s\nspec:\n  replicas: 3\n  percentNext: %d\n  previous: %s\n  next: %s\n",
		name, percent, template("old", serve), template("new", next))
}

// greetings asks every pod of the deployment.
func (c *cluster) greetings(t *testing.T, s seen) (out string) {
	t.Helper()
	for i := range 3 {
		pod := s.status(fmt.Sprintf("slots.%d.pod", i))
		out += c.must(t, 2, "exec", pod, "--", "/bin/hello", "--get", "http://[::1]:8080/")[:3] + " "
	}
	return out
}

// A deployment rolls by a percentage and stays where it is put. Its pods change in
// place; aborting at each stage brings the previous template back.
func TestDeploymentRollsAndAborts(t *testing.T) {
	c := need(t)
	const key = "pinneddeployment/roll"
	c.remove(t, key)
	c.apply(t, 1, "alice", deployment("roll", 0, serve))
	first := c.awaitReady(t, 1, key)
	if got := c.greetings(t, first); got != "old old old " {
		t.Fatalf("at 0%% the pods say %s", got)
	}
	machine := func(i int) string {
		return c.current(t, 1, c.current(t, 1, key).status(fmt.Sprintf("slots.%d.pod", i))).status("machine")
	}
	home := machine(0)
	for percent, want := range []struct{ percent, says string }{{"40%", "new old old "}, {"70%", "new new old "}, {"100%", "new new new "}} {
		c.must(t, percent%machines+1, "roll", "roll", want.percent)
		c.awaitGreetings(t, key, want.says)
		c.must(t, 2, "roll", "roll", "abort")
		c.awaitGreetings(t, key, "old old old ")
	}
	// An abort while pods are on their way is one write as well.
	before := c.current(t, 1, key).GetObject().GetRev()
	c.must(t, 1, "roll", "roll", "100%")
	c.must(t, 1, "roll", "roll", "abort")
	c.awaitGreetings(t, key, "old old old ")
	was, _ := strconv.Atoi(before)
	if now := c.current(t, 1, key).GetObject().GetRev(); now != strconv.Itoa(was+2) {
		t.Errorf("after a roll and its abort the deployment is at rev %s, and was at %s", now, before)
	}
	if now := machine(0); now != home {
		t.Errorf("the first pod went from %s to %s: a roll changes pods in place", home, now)
	}
	says(t, c.must(t, 3, "history", key), "abort the roll", "roll to 40%") // the newest first
}

func (c *cluster) awaitGreetings(t *testing.T, key, want string) {
	t.Helper()
	until(t, "pods that say "+want, func() bool { return c.current(t, 1, key).ready() && c.greetings(t, c.current(t, 1, key)) == want })
}

// A next template that never gets ready stops the roll with all pods serving, and
// `peer why` names the pod's own trouble; deleting the deployment deletes its pods.
func TestBrokenRollStopsAndIsExplained(t *testing.T) {
	c := need(t)
	const key = "pinneddeployment/broken"
	c.remove(t, key)
	c.apply(t, 1, "alice", deployment("broken", 0, `[--listen, "[::]:8080", --fail-ready]`))
	c.awaitReady(t, 1, key)
	c.must(t, 1, "roll", key, "100%")
	answer := c.awaitText(t, 3, key, whyOnly(`^blocked: pinneddeployment/broken: .*; pod/broken-[0-9a-f]+-3: ready: the readiness probe of container app .* fails: the answer is 503`))
	says(t, answer, "to do: ", "pods", "ready")
	s := c.current(t, 1, key)
	if got := c.greetings(t, s); got != "old old old " {
		t.Errorf("the pods say %s while the roll is stuck", got)
	}
	pod := s.status("slots.0.pod")
	refuses(t, c.ask(t, 1, "", "delete", pod), "belongs to "+key, "peer edit "+key)
	c.must(t, 2, "roll", key, "abort")
	c.awaitReady(t, 1, key)
	c.must(t, 2, "delete", key)
	c.awaitGone(t, 1, key)
	c.awaitGone(t, 1, pod)
}
