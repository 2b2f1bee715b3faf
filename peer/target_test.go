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
