package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// plan asks what a spec would do at machine n, which must be something.
func (c *cluster) plan(t *testing.T, n int, spec string) string {
	t.Helper()
	a := c.ask(t, n, spec, "plan", "-f", "-")
	if a.code != 2 {
		t.Fatalf("plan of a change: %v", a)
	}
	return a.out
}

func TestNewArgumentsRestartInPlace(t *testing.T) {
	c := need(t)
	c.remove(t, "inplace")
	pod := podSpec{name: "inplace", args: serve, cpu: "100m", memory: "32Mi"}
	c.apply(t, 3, "alice", pod.String())
	before := c.awaitReady(t, 3, "inplace")
	network := networkOf(t, before.number("containers.app.pid"))

	pod.args = `[--listen, "[::]:8080", --fail-ready]`
	says(t, c.plan(t, 1, pod.String()),
		"pod/inplace: changed", "~ spec.containers.app.args:",
		"rerun   container", "on "+before.status("machine"), "because of spec.containers.app.args",
		"stay", "schedule, admit, address, image, network, storage",
		"it stays on "+before.status("machine")+" with its address "+before.status("address"),
		"restart in place")
	c.apply(t, 2, "bob", pod.String())
	after := c.awaitRev(t, 1, "inplace", "2")

	if is, was := after.status("machine"), before.status("machine"); is != was {
		t.Errorf("it moved from %s to %s", was, is)
	}
	if is, was := after.status("address"), before.status("address"); is != was {
		t.Errorf("its address was %s and is %s", was, is)
	}
	if is := networkOf(t, after.number("containers.app.pid")); is != network {
		t.Errorf("its network namespace was %d and is %d", network, is)
	}
	if alive(before.number("containers.app.pid")) {
		t.Error("the old process still runs beside its successor")
	}
	if got := after.number("containers.app.restarts"); got != 0 {
		t.Errorf("an edit counts as %d restarts of a container that ended by itself", got)
	}
	for _, step := range []string{"schedule", "admit", "address", "network", "storage", "image"} {
		if is, was := after.step(step).GetAttempt(), before.step(step).GetAttempt(); is != was {
			t.Errorf("step %s ran again (attempt %d, then %d)", step, was, is)
		}
	}
	a := c.ask(t, 1, "", "exec", "inplace", "--", "/bin/hello", "--get", "http://[::1]:8080/ready")
	if a.code != 1 || a.out != "told not to be ready\n" {
		t.Errorf("the new arguments have no effect: %v", a)
	}
}

func TestNewImageRestartsInPlace(t *testing.T) {
	c := need(t)
	c.remove(t, "newimage")
	pod := podSpec{name: "newimage", args: serve}
	c.apply(t, 1, "alice", pod.String())
	before := c.awaitReady(t, 1, "newimage")
	pod.image = helloAgain
	says(t, c.plan(t, 3, pod.String()), "rerun   image", "rerun   container", "stay", "schedule, admit, address, network, storage")
	c.apply(t, 3, "alice", pod.String())
	after := c.awaitRev(t, 3, "newimage", "2")
	if after.status("address") != before.status("address") || after.status("machine") != before.status("machine") {
		t.Errorf("it was %v and is %v", before, after)
	}
}

func TestMoreMemoryThanTheMachineHasMovesThePod(t *testing.T) {
	c := need(t)
	c.remove(t, "mover")
	c.must(t, 1, "machine", "label", "m1", "start=here")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", "m1", "start-") })
	pod := podSpec{name: "mover", args: serve, memory: "64Mi", require: "start: here"}
	c.apply(t, 2, "alice", pod.String())
	before := c.awaitReady(t, 2, "mover")
	if before.status("machine") != "m1" {
		t.Fatalf("it landed on %s, where nobody asked for it", before.status("machine"))
	}

	pod.memory, pod.require = "700Mi", ""
	says(t, c.plan(t, 2, pod.String()),
		"rerun   schedule", "because of spec.containers.app.resources.memory",
		"rerun   admit", "on m3",
		"undo    container   on m1",
		"it moves from m1 to m3")
	c.apply(t, 2, "bob", pod.String())
	after := c.awaitRev(t, 2, "mover", "2")
	if after.status("machine") != "m3" {
		t.Errorf("it is on %s, where it does not fit", after.status("machine"))
	}
	if is, was := after.status("address"), before.status("address"); is != was {
		t.Errorf("its address was %s and is %s", was, is)
	}
	if alive(before.number("containers.app.pid")) {
		t.Error("it still runs on m1 as well")
	}
	// The address answers at its new place, seen from a machine that it never was on.
	c.awaitAnswer(t, 2, after, "hello from mover\n")
}

// An edit that alters nothing makes no rev, and plan says so.
func TestApplyingTheSameChangesNothing(t *testing.T) {
	c := need(t)
	c.remove(t, "same-again")
	spec := podSpec{name: "same-again", args: serve}.String()
	c.apply(t, 1, "alice", spec)
	before := c.awaitReady(t, 2, "same-again")
	if a := c.ask(t, 2, spec, "plan", "-f", "-"); a.code != 0 {
		t.Errorf("plan of no change: %v", a)
	}
	says(t, c.apply(t, 2, "bob", spec).out, "pod/same-again unchanged")
	if s := c.awaitReady(t, 2, "same-again"); s.GetObject().GetRev() != "1" || s.number("containers.app.pid") != before.number("containers.app.pid") {
		t.Errorf("it is %v, and was %v", s, before)
	}
}

// People restart, stop and start a pod with one command each.
func TestRestartAndSwitch(t *testing.T) {
	c := need(t)
	c.remove(t, "switched")
	c.apply(t, 1, "alice", podSpec{name: "switched", args: serve}.String())
	first := c.awaitReady(t, 1, "switched")

	c.must(t, 2, "restart", "switched")
	second := c.await(t, 2, "switched", "restarted", func(s seen) bool {
		return s.ready() && s.number("containers.app.pid") != first.number("containers.app.pid")
	})
	if second.status("address") != first.status("address") || second.status("machine") != first.status("machine") {
		t.Errorf("a restart is in place, but it was %v and is %v", first, second)
	}

	c.must(t, 3, "switch", "switched", "stopped")
	stopped := c.await(t, 3, "switched", "stopped", func(s seen) bool {
		return s.GetGoal() == api.TargetStopped && s.GetObject().GetVerdict() == "converged"
	})
	if alive(second.number("containers.app.pid")) {
		t.Error("a stopped pod still runs")
	}
	if stopped.status("address") != first.status("address") || stopped.status("machine") != first.status("machine") {
		t.Errorf("a stopped pod keeps its machine and its address, but is %v", stopped)
	}
	c.must(t, 1, "switch", "switched", "ready")
	if s := c.awaitReady(t, 1, "switched"); s.status("address") != first.status("address") {
		t.Errorf("started again, its address was %s and is %s", first.status("address"), s.status("address"))
	}
}

// specOf is the spec at machine n as JSON values by path.
func (c *cluster) specOf(t *testing.T, n int, key string) map[string]string {
	t.Helper()
	k := keyOf(t, key)
	got, err := c.lab.Client(n).Get(t.Context(), &apiv1.GetRequest{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name})
	if err != nil {
		t.Fatalf("get %s at m%d: %v", key, n, err)
	}
	spec := map[string]string{}
	for path, value := range got.GetObjects()[0].GetFields() {
		if strings.HasPrefix(path, "spec.") {
			spec[path] = value
		}
	}
	return spec
}

// differences lists the paths at which two specs are not the same.
func differences(a, b map[string]string) []string {
	var paths []string
	for path := range maps.Keys(a) {
		if a[path] != b[path] {
			paths = append(paths, path)
		}
	}
	for path := range maps.Keys(b) {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
