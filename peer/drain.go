package peer

import (
	"fmt"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// keepsPods has a machine be drained only when nothing runs there any more: whoever waits
// for that is about to switch it off. It waits for the pod that is held up most.
func (e *engine) keepsPods(t *tracked, eval *lifecycle.Evaluation) {
	order := map[lifecycle.State]int{lifecycle.Converged: 1, lifecycle.Progressing: 2, lifecycle.Failed: 3, lifecycle.Blocked: 4}
	var worst *tracked
	var verdict lifecycle.State
	count := 0
	for _, pod := range e.placed.sorted(t.ref.Name) {
		v := e.verdictOf(pod)
		if pod.life == 0 || v == lifecycle.Converged && pod.kind.down(e.goal(pod)) {
			continue // it is stopped, and takes up its place only
		}
		if count++; order[v] > order[verdict] {
			worst, verdict = pod, v
		}
	}
	if worst == nil {
		return
	}
	eval.Verdict = verdict
	if verdict == lifecycle.Converged { // it has not heard yet
		eval.Verdict = lifecycle.Progressing
	}
	for i := range eval.Steps {
		if s := &eval.Steps[i]; s.Step == eval.Goal {
			s.State, s.For, s.Machine = lifecycle.StateWaiting, api.Key(worst.ref).String(), t.ref.Name
			s.Message = fmt.Sprintf("%d pods still run there", count)
			if count == 1 {
				s.Message = "one pod still runs there"
			}
		}
	}
}

// lessPlaced looks again at a machine that is being drained when a pod has left it, or
// stands otherwise.
func (e *engine) lessPlaced(machine string) {
	t := e.objects[crdt.Ref{Kind: "Machine", Name: machine}]
	if t == nil || t.life == 0 || t.verdict == lifecycle.Converged || e.goal(t) != api.TargetDrained {
		return
	}
	e.feed.changed(t)
	e.mark(t.ref)
}
