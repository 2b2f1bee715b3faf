package server

import (
	"fmt"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// objectTo turns what a peer sees of an object into what clients get.
func objectTo(s peer.Seen) *apiv1.Object {
	o := &apiv1.Object{
		Key: keyTo(s.Object.Key), Id: s.Object.ID, Status: s.Object.Status(), Verdict: string(s.Eval.Verdict), Phase: phase(s),
		Deleting: s.Object.Deleted,
	}
	if s.Folded == nil {
		return o
	}
	o.Rev, o.Fields, o.Creator = s.Folded.Current(), s.Folded.Values(), s.Folded.Creator()
	if revs := s.Folded.Revs(); len(revs) > 0 {
		o.CreatedMs = crdt.Millis(revs[0].HLC)
	}
	for _, c := range s.Folded.Conflicts() {
		o.Conflicts = append(o.Conflicts, conflictTo(s.Folded, c))
	}
	if len(s.Invalid) > 0 {
		c := &apiv1.Conflict{Path: "spec"}
		for _, p := range s.Invalid {
			c.Claims = append(c.Claims, "the merged spec is not valid and does not run: "+p.String())
		}
		o.Conflicts = append(o.Conflicts, c)
	}
	for _, l := range s.Folded.Losers() {
		o.Conflicts = append(o.Conflicts, &apiv1.Conflict{
			Path: "name",
			Claims: []string{fmt.Sprintf(
				"also created by %s as %s, which was passed over; the next apply, edit or rollback says that this one is meant, a deletion deletes both",
				l.Creator, l.ID)},
		})
	}
	return o
}

func conflictTo(o *crdt.Object, c crdt.Conflict) *apiv1.Conflict {
	out := &apiv1.Conflict{Path: c.Path}
	for _, claim := range c.Claims {
		value := claim.Value
		if value == "" {
			value = "(removed)"
		}
		out.Claims = append(out.Claims, fmt.Sprintf("%s by %s (rev %s)", value, claim.Author, o.RevName(claim.Change)))
	}
	return out
}

// phase is the one word, or two, for a list.
func phase(s peer.Seen) string {
	e := s.Eval
	switch {
	case e.Silent != "":
		return "machine silent"
	case s.Object.Deleted:
		return "deleting"
	case e.Verdict == lifecycle.Converged:
		if _, code := failedExit(s); code != 0 {
			return fmt.Sprintf("ended with %d", code)
		}
		return reached(s)
	case s.Object.Key.Kind == "Machine" && e.Goal == api.TargetDrained:
		return "draining"
	}
	for _, st := range e.Steps {
		switch st.State {
		case lifecycle.StateRetrying:
			return st.Step + " failed"
		case lifecycle.StateBlocked:
			return st.Step + " blocked"
		}
	}
	for _, st := range e.Steps {
		switch st.State {
		case lifecycle.StateRunning, lifecycle.StateReady, lifecycle.StateUndoing:
			return st.Step
		}
	}
	return string(e.Verdict)
}

func reached(s peer.Seen) string {
	status := s.Object.Status()
	if s.Object.Key.Kind == "Pod" && s.Eval.Goal != api.TargetStopped && status["status.running"] == "false" {
		return "completed"
	}
	return s.Eval.Goal
}

func stateTo(s peer.Seen) *apiv1.ObjectState {
	out := &apiv1.ObjectState{Object: objectTo(s), Goal: s.Eval.Goal, Gone: s.Eval.Gone}
	for _, st := range s.Eval.Steps {
		if !s.Graph.Concerns(s.Object, st.Step) {
			continue
		}
		out.Steps = append(out.Steps, stepTo(s.Graph, st))
	}
	return out
}

func stepTo(g *lifecycle.Graph, st lifecycle.StepState) *apiv1.StepStatus {
	return &apiv1.StepStatus{
		Step: st.Step, Loop: st.Loop, Target: st.Target, State: string(st.State), Machine: st.Machine, WaitsFor: st.For,
		SinceMs: millis(st.Since), UntilMs: millis(st.Until), Code: st.Code, Message: st.Message,
		Attempt: st.Result.Attempt, Failures: uint32(st.Result.Failures),
		QueuedMs: millis(st.Result.Queued), StartedMs: millis(st.Result.Started), FinishedMs: millis(st.Result.Finished),
		Requires: g.RequiresOf(st.Step), Dirty: st.Dirty,
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
