package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

const autoscalerStep = `
kind: Step
name: autoscaler
spec:
  kind: PinnedDeployment
  loop: autoscaler
  step: measure
  reads: [status.ready]
  outputs: [status.loops.autoscaler.replicas]
  wantedBy: [ready]
  every: 5s
  existing: now
`

func deployment(spec string) string {
	return fmt.Sprintf("kind: PinnedDeployment\nname: web\nspec: {%s, next: {containers: {app: {image: \"localhost/hello:1\"}}}}\n", spec)
}

// The number of pods is handed over to an autoscaler by an explicit choice, and back by
// taking it out: nobody's field is ever written by another.
func TestScalingIsHandedOver(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach("autoscaler")
	load := int64(4)
	h.do = func(loops.ForeignCall) (lifecycle.Outputs, error) {
		return lifecycle.Outputs{"status.loops.autoscaler.replicas": api.Int(load)}, nil
	}
	c.run(3 * time.Second)
	pods := func(want int, when string) {
		t.Helper()
		c.run(10 * time.Second)
		seen, _ := c.cores[1].core.See(api.Key{Kind: "PinnedDeployment", Namespace: "default", Name: "web"})
		if n := len(c.cores[1].core.List("Pod")); n != want || seen.Object.Status().Int("status.replicas") != int64(want) || seen.Eval.Verdict != lifecycle.Converged {
			t.Fatalf("%s: %d pods, want %d; %s %v", when, n, want, seen.Eval.Verdict, seen.Object.Status())
		}
	}
	c.mustApply(1, deployment("replicas: 2, scaling: autoscaler"))
	pods(2, "before the autoscaler is there")
	c.mustApply(1, autoscalerStep)
	pods(4, "when it has measured")
	c.mustApply(2, deployment("replicas: 1, scaling: autoscaler"))
	pods(4, "after an edit of replicas")
	load = 3
	pods(3, "when it measures another load")
	c.mustApply(2, deployment("replicas: 1"))
	pods(1, "when it is taken out")
	before := c.cores[0].core.Figures()["entries"]
	calls := len(h.calls)
	c.run(30 * time.Second)
	if after := c.cores[0].core.Figures()["entries"]; after != before || len(h.calls) < calls+5 || len(h.calls) > calls+7 {
		t.Errorf("at rest, 30 s brought %d entries and %d calls, want none and one each 5 s", after-before, len(h.calls)-calls)
	}
}

// Who measures in an interval goes on when another peer takes over.
func TestIntervalOutlivesItsExecutor(t *testing.T) {
	c := newCluster(t, 3)
	h := c.attach("autoscaler")
	h.give = lifecycle.Outputs{"status.loops.autoscaler.replicas": "1"}
	c.run(3 * time.Second)
	c.mustApply(1, autoscalerStep+"---\n"+deployment("scaling: autoscaler"))
	c.run(10 * time.Second)
	key := api.Key{Kind: "PinnedDeployment", Namespace: "default", Name: "web"}
	for i, n := range c.cores {
		if seen, _ := n.core.See(key); seen.Eval.Steps[0].Machine == n.core.self.Name {
			c.split(i + 1)
		}
	}
	calls := len(h.calls)
	c.run(30 * time.Second)
	if len(h.calls) < calls+5 {
		t.Errorf("after its executor is gone the loop was called %d times in 30 s", len(h.calls)-calls)
	}
}
