package peer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

func switchTo(name, target string, mode lifecycle.Mode, skip ...string) Edit {
	return Edit{Kind: EditSwitch, Key: podKey(name), Switch: Switch{Target: target, Mode: mode, Skip: skip}}
}

// job is what the object's fields say of its switch.
func (c *cluster) job(i int, name string) string {
	o, ok := c.cores[i-1].core.See(podKey(name))
	if !ok {
		return "gone"
	}
	v := o.Folded.Values()
	return strings.Join(slices.DeleteFunc([]string{
		o.Eval.Goal, string(o.Eval.Verdict), unquote(v[jobFrom]), unquote(v[jobMode]),
	}, func(s string) bool { return s == "" }), " ")
}

// The table of lifecycle.Switch, asked for at any peer, one switch after the other.
func TestSwitchesOfAPod(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", "  containers: {app: {image: localhost/missing:1}}\n"))
	cancel := Edit{Kind: EditSwitch, Key: podKey("web"), Switch: Switch{Cancel: true}}
	patch := Edit{Kind: EditPatch, Key: podKey("web"), Fields: api.Fields{jobTarget: api.Str(api.TargetStopped)}}
	for i, tt := range []struct {
		what   string
		edit   Edit
		result string // of the outcome, or the code and part of the message of a refusal
		job    string
	}{
		{"under way elsewhere", switchTo("web", "stopped", lifecycle.ModeFail), "SwitchRefused is being switched to ready; wait for it, or use --mode replace", "ready failed"},
		{"replaced", switchTo("web", "stopped", lifecycle.ModeReplace), "changed", "stopped converged"},
		{"there", switchTo("web", "stopped", lifecycle.ModeFail), "unchanged", "stopped converged"},
		{"at rest", switchTo("web", "running", lifecycle.ModeFail), "changed", "running failed stopped"},
		{"the same, now for good", switchTo("web", "running", lifecycle.ModeIrreversible), "changed", "running failed stopped irreversible"},
		{"for good", switchTo("web", "ready", lifecycle.ModeReplace), "SwitchRefused is being switched to running irreversibly; wait for it, or give it up with `peer switch pod/web --cancel`", "running failed stopped irreversible"},
		{"a field that is written", patch, "SwitchRefused irreversibly", "running failed stopped irreversible"},
		{"cancelled", cancel, "changed", "stopped converged"},
		{"nothing to cancel", cancel, "unchanged", "stopped converged"},
		{"nowhere", switchTo("web", "nowhere", lifecycle.ModeReplace), `SpecInvalid pod/web has no target "nowhere"; its targets are ready, running, stopped and deleted`, "stopped converged"},
		{"a field of an object at rest", Edit{Kind: EditPatch, Key: podKey("web"), Unset: []string{jobTarget}}, "changed", "ready failed stopped"},
		{"a deletion passes all", switchTo("web", lifecycle.Deleted, lifecycle.ModeFail), "deleted", "gone"},
		{"gone", switchTo("web", "ready", lifecycle.ModeReplace), "NotFound does not exist", "gone"},
	} {
		a := c.write(1+i%3, tt.edit)
		got := ""
		if a.Err != nil {
			got = a.Err.Code + " " + a.Err.Message
		} else {
			got = a.Objects[0].Result
		}
		code, words, _ := strings.Cut(tt.result, " ")
		if !strings.HasPrefix(got, code) || !strings.Contains(got, words) {
			t.Errorf("%s: %s; want %s", tt.what, got, tt.result)
		}
		c.run(5 * time.Second)
		for n := 1; n <= 3; n++ {
			if job := c.job(n, "web"); job != tt.job {
				t.Errorf("%s: at m%d it is %q, want %q", tt.what, n, job, tt.job)
			}
		}
	}
}

// A step that can't be taken back holds a deletion up until a person passes it over, on
// the record; the deletion itself can neither be replaced nor cancelled.
func TestDeletionPassesOverAStep(t *testing.T) {
	c := newCluster(t, 3)
	loop := c.attach("keep")
	loop.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
		if c.Undo {
			return nil, errors.New("a backup holds the lock")
		}
		return nil, nil
	}
	c.run(3 * time.Second)
	c.write(1, step(t, "lock", "  kind: Pod\n  loop: keep\n  requires: [admit]\n  before: [storage]\n  requiredBy: [storage]\n  undo: true\n"))
	for _, name := range []string{"held", "skipped"} {
		c.write(2, pod(t, name, "  containers: {app: {image: 'localhost/a:1'}}\n"))
		if job := c.job(1, name); job != "ready converged" {
			t.Fatalf("%s is %s", name, job)
		}
	}
	// At once, and after it has got stuck.
	if a := c.write(3, switchTo("skipped", lifecycle.Deleted, "", "keep:lock")); a.Err != nil || c.job(1, "skipped") != "gone" {
		t.Errorf("deletion that passes over the step: %v; it is %s", a.Err, c.job(1, "skipped"))
	}
	c.write(3, Edit{Kind: EditDelete, Key: podKey("held")})
	c.run(10 * time.Second)
	for n := 1; n <= 3; n++ {
		seen, ok := c.cores[n-1].core.See(podKey("held"))
		if !ok {
			t.Fatalf("at m%d the pod is gone with its lock", n)
		}
		chain := seen.Graph.Explain(&seen.Eval)
		if last := chain[len(chain)-1]; seen.Eval.Verdict == lifecycle.Converged || last.Step != "keep:lock" || last.State != lifecycle.StateUndoing {
			t.Errorf("at m%d it is %s because of %+v", n, seen.Eval.Verdict, last.StepState)
		}
	}
	for _, edit := range []Edit{switchTo("held", "ready", ""), {Kind: EditSwitch, Key: podKey("held"), Switch: Switch{Cancel: true}}} {
		if a := c.write(1, edit); a.Err == nil || a.Err.Code != api.SwitchRefused || !strings.Contains(a.Err.Message, "is being deleted") {
			t.Errorf("a deletion was replaced: %v", a.Err)
		}
	}
	if a := c.write(2, switchTo("held", lifecycle.Deleted, "", "keep:lock")); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(10 * time.Second)
	if job := c.job(1, "held"); job != "gone" {
		t.Errorf("it is %s", job)
	}
}
