package peer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// A Target joins Steps that do not know each other: whatever requires it waits for all that
// it requires, and nothing that it holds together can be taken out from under it.
func TestTarget(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach("scan", "announce")
	c.run(3 * time.Second)
	c.mustApply(1, `
kind: Step
name: scan
spec: {kind: Pod, loop: scan, requires: [network], existing: now}
---
kind: Target
name: checked
spec: {kind: Pod, requires: ["scan:scan", storage], doc: All checks have passed.}
---
kind: Step
name: announce
spec: {kind: Pod, loop: announce, requires: [checked], requiredBy: [ready], existing: now}
`)
	c.write(2, pod(t, "web", hello))
	c.run(2 * time.Second)
	if got := fmt.Sprint(h.calls); got != "[scan web 0 announce web 0]" {
		t.Errorf("called %s", got)
	}
	for i, n := range c.cores {
		seen, _ := n.core.See(podKey("web"))
		if s, ok := seen.Eval.Step("checked"); !ok || !s.Target || s.State != lifecycle.StateDone || seen.Eval.Verdict != lifecycle.Converged {
			t.Errorf("m%d: the target is %v %s, the pod %s", i+1, ok, s.State, seen.Eval.Verdict)
		}
	}
	for name, want := range map[string]string{
		"target/checked": "this would leave step/announce out, so nothing was changed: Pod: \"announce:announce\" requires \"checked\", which does not exist",
		"step/scan":      "this would leave ", // the target, and with it the other Step
	} {
		key, err := api.KeyFromString(name)
		if err != nil {
			t.Fatal(err)
		}
		if a := c.write(1, Edit{Kind: EditDelete, Key: key}); a.Err == nil || !strings.Contains(a.Err.Error(), want) {
			t.Errorf("deleting %s: %v", name, a.Err)
		}
	}
	if a := c.apply(1, "kind: Target\nname: running\nspec: {kind: Pod}\n"); a.Err == nil || !strings.Contains(a.Err.Error(), `"running" is declared twice`) {
		t.Errorf("a Target with the name of another: %v", a.Err)
	}
	if a := c.apply(1, "kind: Target\nname: early\nspec: {kind: Pdo}\n"); a.Err == nil || !strings.Contains(a.Err.Error(), "did you mean Pod?") {
		t.Errorf("a Target of no kind: %v", a.Err)
	}
}

const checkedTarget = `
kind: Target
name: checked
spec: {kind: Pod, requires: [image, network], doc: All that a container needs is there.}
`

// A pod can be switched to a target that a Target declares: it keeps what that requires, and
// nothing else runs. The Target can't be taken away meanwhile.
func TestSwitchToADeclaredTarget(t *testing.T) {
	c := newCluster(t, 2)
	c.run(3 * time.Second)
	c.mustApply(1, checkedTarget)
	c.write(1, pod(t, "db", hello))
	c.write(1, pod(t, "web", hello+"  objects: {bind: [pod/db]}\n"))
	before := c.status(1, "db")
	to := func(target string) Answer {
		t.Helper()
		return c.write(2, Edit{Kind: EditSwitch, Key: podKey("db"), Switch: Switch{Target: target, Mode: lifecycle.ModeReplace}})
	}
	if a := to("checked"); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(3 * time.Second)
	for i, n := range c.cores {
		seen, _ := n.core.See(podKey("db"))
		if seen.Eval.Goal != "checked" || seen.Eval.Verdict != lifecycle.Converged {
			t.Errorf("m%d: the pod is %s on its way to %s", i+1, seen.Eval.Verdict, seen.Eval.Goal)
		}
		if web, _ := n.core.See(podKey("web")); web.Eval.Goal != api.TargetStopped {
			t.Errorf("m%d: what is bound to it is to be %s", i+1, web.Eval.Goal)
		}
	}
	if now := c.status(1, "db"); now["status.address"] != before["status.address"] || now["status.image.app"] != before["status.image.app"] || now.Bool("status.running") {
		t.Errorf("of %v it has %v", before, now)
	}
	for name, edit := range map[string]Edit{
		"deleted":    {Kind: EditDelete, Key: api.Key{Kind: "Target", Name: "checked"}},
		"no goal":    {Kind: EditPatch, Key: api.Key{Kind: "Target", Name: "checked"}, Fields: api.Fields{"spec.goal": "false"}},
		"of another": {Kind: EditPatch, Key: api.Key{Kind: "Target", Name: "checked"}, Fields: api.Fields{"spec.kind": `"Service"`, "spec.requires": "[]"}},
	} {
		if a := c.write(1, edit); a.Err == nil || !strings.Contains(a.Err.Error(), "1 object (pod/db) would be left without the target that they are to be at (checked)") {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
	if a := to("cheked"); a.Err == nil || !strings.Contains(a.Err.Error(), "its targets are checked, ready, running, stopped and deleted") {
		t.Errorf("a target that is not there: %v", a.Err)
	}
	if a := to("ready"); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(3 * time.Second)
	if now := c.status(1, "db"); !now.Bool("status.ready") || now["status.address"] != before["status.address"] || !c.status(1, "web").Bool("status.ready") {
		t.Errorf("back again: %v", now)
	}
	c.mustApply(1, "kind: Target\nname: checked\nspec: {kind: Pod, goal: false}\n")
	if a := to("checked"); a.Err == nil || !strings.Contains(a.Err.Error(), "no target \"checked\"") {
		t.Errorf("a target that is none to switch to: %v", a.Err)
	}
}

// While a partition keeps the two apart, a Target may be deleted on one side and a pod be
// switched to it on the other: then the pod is to be ready, and is not taken down.
func TestTargetThatWasTakenAway(t *testing.T) {
	c := newCluster(t, 2)
	c.run(3 * time.Second)
	c.mustApply(1, checkedTarget)
	c.write(1, pod(t, "db", hello))
	c.cut[[2]int{1, 2}], c.cut[[2]int{2, 1}] = true, true
	c.connect()
	if a := c.write(1, Edit{Kind: EditDelete, Key: api.Key{Kind: "Target", Name: "checked"}}); a.Err != nil {
		t.Fatal(a.Err)
	}
	if a := c.write(2, Edit{Kind: EditSwitch, Key: podKey("db"), Switch: Switch{Target: "checked", Mode: lifecycle.ModeReplace}}); a.Err != nil {
		t.Fatal(a.Err)
	}
	clear(c.cut)
	c.connect()
	c.run(5 * time.Second)
	for i, n := range c.cores {
		seen, _ := n.core.See(podKey("db"))
		if seen.Eval.Goal != api.TargetReady || seen.Eval.Verdict != lifecycle.Converged || !seen.Object.Status().Bool("status.ready") {
			t.Errorf("m%d: the pod is %s on its way to %s", i+1, seen.Eval.Verdict, seen.Eval.Goal)
		}
	}
}
