package peer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// programs are the foreign loops that are attached to every machine of a cluster.
type programs struct {
	attached map[string]bool
	calls    []string
	give     lifecycle.Outputs
	giveTo   string // the step that gives it; empty for all
	// do is asked instead, if it is set.
	do func(c loops.ForeignCall) (lifecycle.Outputs, error)
}

func (p *programs) Call(_ context.Context, c loops.ForeignCall) (lifecycle.Outputs, error) {
	if !p.attached[c.Loop] {
		return nil, &lifecycle.Error{Code: api.LoopDetached, Wait: true, Message: loops.Detached(c.Loop, c.Inputs.Machine)}
	}
	what := c.Step
	if c.Undo {
		what = "undo " + c.Step
	}
	p.calls = append(p.calls, fmt.Sprintf("%s %s %d", what, c.Inputs.Key.Name, len(c.Inputs.Fields)))
	if p.do != nil {
		return p.do(c)
	}
	if p.giveTo != "" && p.giveTo != c.Step || c.Undo {
		return nil, nil
	}
	return p.give, nil
}

// Foreign makes a fake host one that foreign loops can attach to.
func (h *fakeHost) Foreign() loops.Foreign { return h.foreign }

// attach attaches programs to every machine.
func (c *cluster) attach(names ...string) *programs {
	p := &programs{attached: map[string]bool{}}
	for _, name := range names {
		p.attached[name] = true
	}
	for _, n := range c.cores {
		n.host.foreign = p
	}
	return p
}

func step(t *testing.T, name, spec string) Edit {
	t.Helper()
	specs, err := api.ParseYAML("test", fmt.Appendf(nil, "kind: Step\nname: %s\nspec:\n%s", name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields}
}

const auditStep = `
  kind: Pod
  loop: audit
  step: check
  requires: [network]
  requiredBy: [container]
  reads: [spec.containers.*.image]
  outputs: [status.loops.audit]
`

// A company's own step stands between network and container, without any pod being
// touched: it holds the pod up while its program is not there, and is told only what it
// declares.
func TestForeignStep(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach()
	h.give = lifecycle.Outputs{"status.loops.audit.passed": "true"}
	c.run(3 * time.Second)
	if a := c.write(1, step(t, "audit", auditStep)); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.write(2, pod(t, "web", hello))
	seen, _ := c.cores[0].core.See(podKey("web"))
	chain := seen.Graph.Explain(&seen.Eval)
	if last := chain[len(chain)-1]; last.Step != "audit:check" || last.Code != api.LoopDetached || !strings.Contains(last.Message, "foreign loop audit is not attached on m") {
		t.Fatalf("the cause is %s: %s %s", last.Step, last.Code, last.Message)
	}
	h.attached["audit"] = true
	for _, n := range c.cores {
		n.core.Step(c.now, Attached{Loop: "audit"})
	}
	c.run(2 * time.Second)
	status := c.status(1, "web")
	if status["status.ready"] != "true" || status["status.loops.audit.passed"] != "true" {
		t.Errorf("after the loop attached: %v", status)
	}
	if fmt.Sprint(h.calls) != "[check web 1]" {
		t.Errorf("the loop was called %v, want once with the image alone", h.calls)
	}
}

func podKey(name string) api.Key { return api.Key{Kind: "Pod", Namespace: "default", Name: name} }

// Objects that were there before are left alone until their next edit, or not, as the
// Step says.
func TestNewStepAndOldObjects(t *testing.T) {
	for existing, want := range map[string]string{"next-run": "[]", "now": "[check web 1]"} {
		c := newCluster(t, 1)
		h := c.attach("audit")
		c.run(3 * time.Second)
		c.write(1, pod(t, "web", hello))
		before := c.status(1, "web")
		c.write(1, step(t, "audit", auditStep+"  existing: "+existing+"\n"))
		if got := fmt.Sprint(h.calls); got != want {
			t.Errorf("existing: %s: called %s, want %s", existing, got, want)
		}
		if after := c.status(1, "web"); after["status.containers.app.pid"] != before["status.containers.app.pid"] {
			t.Errorf("existing: %s: the pod was restarted", existing)
		}
		c.write(1, pod(t, "web", strings.Replace(hello, "[a]", "[b]", 1)))
		if got := fmt.Sprint(h.calls); got != "[check web 1]" {
			t.Errorf("existing: %s, after an edit: called %s", existing, got)
		}
	}
}

func TestStepsThatDoNotFit(t *testing.T) {
	c := newCluster(t, 1)
	c.run(3 * time.Second)
	c.write(1, step(t, "audit", auditStep))
	for says, spec := range map[string]string{
		"both write status.loops.audit":            strings.Replace(auditStep, "check", "other", 1),
		"requires \"nosuch\"":                      strings.Replace(strings.Replace(auditStep, "network", "nosuch", 1), "audit", "b", 3),
		"wait for each other in a circle":          "\n  kind: Pod\n  loop: b\n  requires: [ready]\n  requiredBy: [network]\n",
		"status.machine belongs to loop scheduler": "\n  kind: Pod\n  loop: b\n  outputs: [status.machine]\n",
		"is a loop of the peer itself":             "\n  kind: Pod\n  loop: scheduler\n",
		"step b:second can't read spec.contaners: a Pod has no spec.contaners: there is no such field; did you mean containers?": "\n  kind: Pod\n  loop: b\n  requires: [network]\n  reads: [spec.contaners]\n",
		"loop b claims nftables:starling/table, and nftables:starling is claimed by loop network; one resource has one owner":    "\n  kind: Service\n  loop: b\n  claims: [\"nftables:starling/table\"]\n",
		"there is no kind \"Pdo\"": "\n  kind: Pdo\n  loop: b\n",
	} {
		specs, err := api.ParseYAML("test", fmt.Appendf(nil, "kind: Step\nname: second\nspec:\n%s", spec))
		if err == nil {
			a := c.write(1, Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields})
			if a.Err == nil {
				t.Errorf("%q was taken", spec)
				continue
			}
			err = a.Err
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is refused with %v, want %q", spec, err, says)
		}
	}
}

// Two Steps that clash, written on both sides of a partition: the older one holds on
// every machine, and the other says why it does not.
func TestClashAcrossPartition(t *testing.T) {
	c := newCluster(t, 3)
	c.attach("audit")
	c.run(3 * time.Second)
	c.split(1)
	c.write(1, step(t, "first", auditStep))
	c.write(2, step(t, "second", strings.Replace(auditStep, "check", "other", 1)))
	c.heal()
	c.run(30 * time.Second)
	for i, n := range c.cores {
		for name, want := range map[string]lifecycle.State{"first": lifecycle.Converged, "second": lifecycle.Blocked} {
			s, _ := n.core.See(api.Key{Kind: "Step", Name: name})
			if s.Eval.Verdict != want {
				t.Errorf("m%d finds Step %s %s, want %s", i+1, name, s.Eval.Verdict, want)
			}
		}
		g := n.core.engine.kindNamed("Pod").Graph
		if g.StepOwner("audit:check") != "audit" || g.StepOwner("audit:other") != "" {
			t.Errorf("m%d composes pods otherwise", i+1)
		}
	}
}

// A step that a person said to skip counts as done.
func TestSkippedStep(t *testing.T) {
	c := newCluster(t, 1)
	c.attach()
	c.run(3 * time.Second)
	c.write(1, step(t, "audit", auditStep))
	e := pod(t, "web", hello)
	c.write(1, e)
	c.write(1, Edit{Kind: EditPatch, Key: e.Key, Fields: api.Fields{"lifecycle.skip": api.List("audit:check")}})
	if c.status(1, "web")["status.ready"] != "true" {
		t.Error("the pod still waits for a step that is skipped")
	}
}

// The programs of one loop attach to all machines at once, and declare one Step.
func TestDeclaredOnSeveralMachinesAtOnce(t *testing.T) {
	c := newCluster(t, 3)
	c.attach("audit")
	c.run(3 * time.Second)
	for _, n := range c.cores {
		n.core.Step(c.now, Write{Request: 9, Author: api.LoopAuthor + "audit", Edits: []Edit{step(t, "audit", auditStep)}})
	}
	c.run(10 * time.Second)
	c.write(1, Edit{Kind: EditDelete, Key: api.Key{Kind: "Step", Name: "audit"}})
	c.run(2 * time.Second)
	for _, n := range c.cores {
		if s, ok := n.core.See(api.Key{Kind: "Step", Name: "audit"}); ok {
			t.Errorf("m%d still sees a Step by %s", n.i, s.Folded.Creator())
		}
	}
}

// A Step that is deleted is gone, and pods go on without it.
func TestDeletedStepIsGone(t *testing.T) {
	c := newCluster(t, 3)
	c.attach("audit")
	c.run(3 * time.Second)
	c.write(1, step(t, "audit", auditStep))
	c.write(1, pod(t, "web", hello))
	for range 2 {
		c.write(2, Edit{Kind: EditDelete, Key: api.Key{Kind: "Step", Name: "audit"}})
		c.run(2 * time.Second)
		for _, n := range c.cores {
			if s, ok := n.core.See(api.Key{Kind: "Step", Name: "audit"}); ok {
				t.Errorf("m%d still sees the Step: %s %+v", n.i, s.Eval.Verdict, s.Eval.Steps)
			}
		}
		if s, _ := c.cores[0].core.See(podKey("web")); s.Eval.Verdict != lifecycle.Converged {
			t.Errorf("without the step, the pod is %s", s.Eval.Verdict)
		}
		c.write(1, step(t, "audit", auditStep))
	}
}
