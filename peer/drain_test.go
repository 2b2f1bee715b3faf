package peer

import (
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// A machine is drained when nothing runs there any more. A pod that fits nowhere else goes
// on, is counted there, and is named.
func TestDrainedMachineKeepsWhatFitsNowhereElse(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	m2 := api.Key{Kind: "Machine", Name: "m2"}
	c.write(1, Edit{Kind: EditPatch, Key: m2, Fields: api.Fields{"spec.labels.disk": `"ssd"`}})
	c.write(1, pod(t, "web", hello+"  require: {disk: ssd}\n"))
	c.write(1, Edit{Kind: EditPatch, Key: m2, Fields: api.Fields{"lifecycle.target": api.Str(api.TargetDrained)}})
	c.run(2 * time.Second)
	for i, n := range c.cores {
		machine, _ := n.core.See(m2)
		chain := machine.Graph.Explain(&machine.Eval)
		if machine.Eval.Verdict != lifecycle.Blocked || len(chain) != 1 || chain[0].For != "pod/web" {
			t.Errorf("m%d: the machine is %s, by %v", i+1, machine.Eval.Verdict, chain)
		}
		if pod, _ := n.core.See(webKey); pod.Object.Status().String("status.machine") != "m2" || pod.Eval.Verdict != lifecycle.Blocked {
			t.Errorf("m%d: the pod is %s on %s", i+1, pod.Eval.Verdict, pod.Object.Status().String("status.machine"))
		}
	}
	if len(c.cores[1].host.pods) != 1 {
		t.Error("the pod was stopped, and has no other place")
	}
	c.write(1, Edit{Kind: EditPatch, Key: api.Key{Kind: "Machine", Name: "m3"}, Fields: api.Fields{"spec.labels.disk": `"ssd"`}})
	c.run(3 * time.Second)
	for i, n := range c.cores {
		machine, _ := n.core.See(m2)
		pod, _ := n.core.See(webKey)
		if machine.Eval.Verdict != lifecycle.Converged || pod.Eval.Verdict != lifecycle.Converged || pod.Object.Status().String("status.machine") != "m3" {
			t.Errorf("m%d: in the end the machine is %s, and the pod %s on %s", i+1, machine.Eval.Verdict, pod.Eval.Verdict, pod.Object.Status().String("status.machine"))
		}
	}
	if c.cores[1].core.engine.objects[c.cores[1].core.engine.selfRef()].verdict != lifecycle.Converged {
		t.Error("m2 has not looked again")
	}
	if len(c.cores[1].host.pods) != 0 {
		t.Error("the pod still runs on m2")
	}
}
