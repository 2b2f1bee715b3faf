package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// forward judges a node on the way up. Everything that it stands behind was judged
// before it.
func (v *evaluator) forward(n *node) {
	s := v.state(n)
	*s = StepState{Step: n.name, Loop: n.loop, Target: n.step == nil, State: StateIdle}
	if n.step != nil {
		s.Result = v.o.Results[n.name]
		v.noteHeld(n, s)
	}
	switch {
	case v.runsHere(n, s):
	case !v.needed.has(n.at):
	case v.skipped(n):
		s.State = StateSkipped
	case v.held.has(n.at):
		v.letGo(n, s)
	case v.waits(n, s):
	case n.step == nil:
		s.State = StateDone
	default:
		v.judge(n, s)
	}
	v.ranks[n.at] = v.rank(s)
}

func (v *evaluator) skipped(n *node) bool {
	return n.step != nil && (!n.concerns(v.o) || v.env.Skip != nil && v.env.Skip(n.name))
}

// concerns reports whether the step is for the object at all.
func (n *node) concerns(o *Object) bool {
	if n.step == nil {
		return true
	}
	if _, edited := o.Left[n.name]; !edited && !n.step.Authors.Any() {
		return false
	}
	return len(n.step.If) == 0 || slices.ContainsFunc(n.step.If, o.Fields.Has)
}

// Concerns reports whether a step or target is for the object at all.
func (g *Graph) Concerns(o *Object, step string) bool {
	n, ok := g.index[step]
	return !ok || n.concerns(o)
}

// noteHeld: this machine made something for an object that belongs to another now.
func (v *evaluator) noteHeld(n *node, s *StepState) {
	if made(n, &s.Result) && s.Result.Executor == v.env.Self && !v.holds(n, &s.Result) && v.env.Machine != "" {
		v.held.add(n.at)
	}
}

// holds reports whether the result was made where the step belongs.
func (v *evaluator) holds(n *node, r *Result) bool {
	return n.step.Where != OnMachine || r.Executor == v.env.Machine
}

// runsHere judges a step that this peer is at work on. What runs with reads that are
// no longer current, or for nobody, is cancelled.
func (v *evaluator) runsHere(n *node, s *StepState) bool {
	if n.step == nil {
		return false
	}
	run, ok := v.env.Running(n.name)
	if !ok || (run.Stray && (!v.needed.has(n.at) || v.place(n) != v.env.Self)) {
		return false
	}
	s.Machine, s.Since, s.Until = v.env.Self, run.Since, run.Since.Add(n.step.Timeout)
	s.State = StateRunning
	switch {
	case run.Undo && !run.Stray && v.skipped(n): // it hangs, and a person passes it over
		s.State = StateSkipped
		if !v.needed.has(n.at) {
			s.State = StateIdle
		}
		v.cancel(n)
	case run.Undo:
		s.State = StateUndoing
	case !v.needed.has(n.at) || v.place(n) != v.env.Self:
		s.State = StateUndoing
		v.cancel(n)
	case run.Reads != v.hash(n):
		v.cancel(n)
	case n.step.Every > 0 && s.Result.Phase == PhaseDone && s.Result.Reads == run.Reads:
		s.State, s.Since, s.Until = StateDone, s.Result.Finished, time.Time{} // it only looks again
	}
	return true
}

// letGo takes back what is held here for another machine, but not before that machine
// has done all that it can do meanwhile: if it refuses the object, or lacks its image,
// nothing was stopped.
func (v *evaluator) letGo(n *node, s *StepState) {
	if v.double(n) {
		s.State, s.Machine = StateUndoing, v.env.Self
		return
	}
	for i := range n.below.all {
		m := v.g.nodes[i]
		if state := v.eval.Steps[i].State; v.held.has(i) || m.earlier&v.held != 0 || state == StateDone || state == StateSkipped {
			continue
		}
		s.State, s.For, s.Machine = StateWaiting, m.name, v.env.Self
		s.Message = "it goes on here until then"
		return
	}
	s.State, s.Machine = StateUndoing, v.env.Self
}

// double: the machine where the object belongs did everything below n once, in another
// part of a cluster that was cut, and holds it still. There is nothing more to wait for
// while the decision where the object is to be is blocked: it would run twice for as long.
func (v *evaluator) double(n *node) bool {
	blocked := false
	for i := range n.below.all {
		m, s := v.g.nodes[i], &v.eval.Steps[i]
		switch {
		case m.step == nil:
		case m.step.Where == OnMachine:
			if s.Result.Phase != PhaseDone || s.Result.Executor != v.env.Machine {
				return false
			}
		case s.State == StateBlocked:
			blocked = true
		case s.State != StateDone && s.State != StateSkipped:
			return false
		}
	}
	return blocked
}

// waits reports whether n must wait: for a requirement that is not done, or for a
// needed node it is ordered after that may still run. Of several the one that stands
// worst is named, since it is the cause.
func (v *evaluator) waits(n *node, s *StepState) bool {
	worst := -1
	for _, waits := range [2]set{n.requires, n.after &^ n.requires} {
		for i := range waits.all {
			if v.open(n, i) && (worst < 0 || v.ranks[i] > v.ranks[worst]) {
				worst = i
			}
		}
	}
	if worst < 0 {
		return false
	}
	s.State, s.For = StateWaiting, v.g.nodes[worst].name
	if s.Result.Phase == PhaseDone {
		s.Dirty = v.hash(n) != s.Result.Reads
	}
	return true
}

// open reports whether n has to wait for the node at i. A failure holds up those that
// require the node, not those that are only ordered behind it.
func (v *evaluator) open(n *node, i int) bool {
	if n.requires.has(i) {
		return v.eval.Steps[i].State != StateDone && v.eval.Steps[i].State != StateSkipped
	}
	return v.needed.has(i) && v.ranks[i] != rankFine && !v.ranks[i].failed()
}

// judge decides for a step whose requirements are all met.
func (v *evaluator) judge(n *node, s *StepState) {
	s.Machine = v.place(n)
	if s.Machine == "" {
		s.State, s.For = StateWaiting, "machine"
		return
	}
	r, reads := &s.Result, v.hash(n)
	current := r.Reads == reads
	s.Dirty = r.Phase == PhaseDone && !current
	switch {
	case v.again(n):
		v.start(n, s, reads, false)
	case r.Phase == PhaseDone && current && v.holds(n, r) && !v.adopts(n, r):
		s.State, s.Since = StateDone, r.Finished
		v.lookAgain(n, s, reads)
	case v.heldElsewhere(n, s):
	case r.Phase == PhaseFailed && current && v.holds(n, r) && !v.retry(n, s):
	case r.Phase == PhaseStarted && current && (v.attends(n, s) || v.elsewhere(n, s)):
	default:
		v.start(n, s, reads, !current && r.Phase != PhaseNever)
	}
}

// lookAgain does a step once more whose interval is over. The step counts as done: what
// comes of it is another result, or the same. A loop whose entry budget is spent looks later.
func (v *evaluator) lookAgain(n *node, s *StepState, reads [32]byte) {
	if n.step.Every == 0 || v.env.Looked == nil || s.Machine != v.env.Self {
		return
	}
	due := v.env.Looked(n.name).Add(n.step.Every)
	if until, _ := v.earned(n); due.Before(until) {
		due = until
	}
	if v.env.Now.Before(due) {
		v.wake(due)
		return
	}
	v.run(Run{Step: n.step, Reads: reads, Inputs: v.inputs(n)})
}

// adopts: what an earlier life of this peer did is looked at once, by doing it again. A
// promise is made again if it is no longer kept here.
func (v *evaluator) adopts(n *node, r *Result) bool {
	return (n.acts() || n.step.Reserves) && r.Executor == v.env.Self && v.place(n) == v.env.Self && v.env.Adopt(n.name)
}

// heldElsewhere: another machine still has what an earlier run made. It takes that
// back first, unless nobody can ask it any more.
func (v *evaluator) heldElsewhere(n *node, s *StepState) bool {
	r := &s.Result
	if !made(n, r) || v.holds(n, r) || v.lost(r.Executor) {
		return false
	}
	s.State = StateWaiting
	v.waitFor(s, r.Executor)
	s.Message = "it has to let go first"
	return true
}

// retry reports whether a failed step may run again, and else says when.
func (v *evaluator) retry(n *node, s *StepState) bool {
	r := &s.Result
	s.Code, s.Message, s.Since = r.Code, r.Message, r.Finished
	if r.RetryAt.IsZero() {
		if s.Machine == v.env.Self && v.env.MayRetry(n.name) {
			return true
		}
		s.State = StateBlocked
		return false
	}
	if !v.env.Now.Before(r.RetryAt) {
		return true
	}
	s.State, s.Until = StateRetrying, r.RetryAt
	v.wake(r.RetryAt)
	return false
}

// elsewhere: the step was started by another peer that is still in charge of it.
func (v *evaluator) elsewhere(n *node, s *StepState) bool {
	r := &s.Result
	if r.Executor == v.env.Self || r.Executor != s.Machine {
		return false
	}
	s.State, s.Since, s.Until = StateRunning, r.Started, r.Started.Add(n.step.Timeout)
	return true
}

// start makes the step run here, or says whom it waits for.
func (v *evaluator) start(n *node, s *StepState, reads [32]byte, again bool) {
	if s.Machine != v.env.Self {
		s.State = StateWaiting
		v.waitFor(s, s.Machine)
		return
	}
	if v.overdrawn(n, s) {
		return
	}
	run := Run{Step: n.step, Reads: reads}
	if again && n.generation != 0 {
		run.Feedback, run.Generation = true, v.reads.hash(n.generation, "")
		if v.spent(n, s, run.Generation) {
			return
		}
	}
	s.State = StateReady
	run.Inputs = v.inputs(n)
	v.run(run)
}

// spent: what stands further down has made the step run again often enough. It waits,
// longer each time, or until the next generation.
func (v *evaluator) spent(n *node, s *StepState, generation [32]byte) bool {
	if v.env.Feedback == nil {
		return false
	}
	f := v.env.Feedback(n.name)
	until := f.until(generation, n.step)
	if !v.env.Now.Before(until) {
		return false
	}
	s.State, s.Since, s.Until, s.Code = StateRetrying, f.Last, until, FeedbackSpent
	s.Message = fmt.Sprintf("%s changed it %d times since the last edit; it waits longer each time", n.step.Feedback[0], f.Runs)
	v.wake(until)
	return true
}
