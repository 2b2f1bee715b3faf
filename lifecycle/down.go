package lifecycle

// backward judges a node on the way down, in reverse order: a step that the goal
// no longer needs, or that belongs to another machine now, is taken back once
// everything behind it has been.
func (v *evaluator) backward(n *node) {
	if n.step == nil {
		return
	}
	s := v.state(n)
	v.keepBelow(n, s)
	letsGo := s.State == StateUndoing
	switch run, busy := v.env.Running(n.name); {
	case busy && letsGo && s.Machine == v.env.Self:
		v.down.add(n.at)
	case busy && run.Stray:
		v.markStray(n, s)
	case busy:
	case n.step.Manage != nil || v.keepsChildren(n):
		v.disown(n, s)
	case !letsGo && (v.needed.has(n.at) || s.Result.Phase == PhaseNever || s.Result.Phase == PhaseUndone):
		v.stray(n, s)
	case n.step.Undo == nil:
		v.clear(n, s)
	default:
		v.takeBack(n, s)
		v.stray(n, s)
	}
	v.ranks[n.at] = v.rank(s)
}

// keepsChildren: an acting step that is not needed any more has children, which go before
// it is taken back.
func (v *evaluator) keepsChildren(n *node) bool {
	if v.needed.has(n.at) {
		return false
	}
	child, _ := v.child(n)
	return child != ""
}

// keepBelow keeps what stands below something that is held here still, for an object
// that belongs elsewhere: it is let go from the top.
func (v *evaluator) keepBelow(n *node, s *StepState) {
	if !v.held.has(n.at) || s.State == StateIdle {
		return
	}
	if kept := n.above & v.kept; kept != 0 && s.State == StateUndoing {
		s.State, s.For = StateWaiting, v.g.nodes[kept.last()].name
	}
	if s.State == StateWaiting {
		v.kept.add(n.at)
	}
}

func (v *evaluator) markStray(n *node, s *StepState) {
	v.strays.add(n.at)
	if s.State == StateIdle {
		s.State, s.Machine = StateUndoing, v.env.Self
	}
}

// holder is the machine that takes the step back: the one that did it, or, for what is
// done on no machine in particular, the executor.
func (v *evaluator) holder(n *node, r *Result) string {
	if n.step.Where == OnMachine {
		return r.Executor
	}
	return v.env.Executor
}

// clear forgets the outputs of a step that made nothing outside: while the object
// lives they would be stale; on deletion they go with it.
func (v *evaluator) clear(n *node, s *StepState) {
	if v.eval.Goal == Deleted || len(s.Result.Outputs) == 0 {
		return
	}
	holder := v.holder(n, &s.Result)
	if n.step.Where == OnMachine && v.lost(holder) {
		holder = v.env.Machine
	}
	if holder == v.env.Self && v.user(n, holder) == nil {
		v.run(Run{Step: n.step, Undo: true})
	}
}

func (v *evaluator) takeBack(n *node, s *StepState) {
	holder := v.holder(n, &s.Result)
	if v.skipped(n) || (n.step.Where == OnMachine && v.env.Removed(holder)) {
		s.State = StateIdle
		return
	}
	s.State, s.Machine = StateUndoing, holder
	if r := &s.Result; r.Phase == PhaseFailed && r.Code == UndoFailed {
		s.Code, s.Message, s.Until, s.Since = r.Code, r.Message, r.RetryAt, r.Finished
	}
	v.down.add(n.at)
	switch u := v.user(n, holder); {
	case u != nil:
		s.For = u.name
	case holder == "":
		s.For = "machine"
	case holder != v.env.Self:
		v.waitFor(s, holder)
	default:
		v.undo(n, s)
	}
}

// undo takes the step back here, with backoff if that failed before.
func (v *evaluator) undo(n *node, s *StepState) {
	r := &s.Result
	if s.Code == UndoFailed && v.env.Now.Before(r.RetryAt) {
		v.wake(r.RetryAt)
		return
	}
	v.run(Run{Step: n.step, Undo: true, Reads: r.Reads, Inputs: v.inputs(n)})
}

// user returns a node behind n that is still to be taken back, and that shares a place
// with what the holder has of n: it goes first.
func (v *evaluator) user(n *node, holder string) *node {
	if s := n.above & (v.strays | v.kept); s != 0 && holder == v.env.Self {
		return v.g.nodes[s.last()]
	}
	for i := range (n.above & v.down).all {
		u := v.g.nodes[i]
		if n.step.Where != OnMachine || u.step.Where != OnMachine || v.eval.Steps[i].Machine == holder {
			return u
		}
	}
	return nil
}

// stray takes back what this machine made for an object that has moved on without
// it: no result of this machine tells of it, so nothing is written.
func (v *evaluator) stray(n *node, s *StepState) {
	if n.step.Undo == nil || !v.env.Effects(n.name) || v.belongs(n, &s.Result) {
		return
	}
	if n.above&v.kept != 0 || v.carries(n) {
		return // something goes on here that stands on it
	}
	v.markStray(n, s)
	if u := v.user(n, v.env.Self); u == nil {
		v.run(Run{Step: n.step, Undo: true, Stray: true, Inputs: v.inputs(n)})
	} else if s.State == StateUndoing && s.For == "" {
		s.For = u.name
	}
}

// carries reports whether something that requires n was made here and is kept: it is let
// go first. n's own result may tell of another machine by now, while nobody has said yet
// where the object belongs.
func (v *evaluator) carries(n *node) bool {
	for i := range n.above.all {
		u := v.g.nodes[i]
		if u.step == nil || u.step.Undo == nil || u.step.Where != OnMachine || !u.hard.has(n.at) || v.skipped(u) {
			continue
		}
		if v.env.Effects(u.name) && v.belongs(u, &v.eval.Steps[i].Result) {
			return true
		}
	}
	return false
}

// belongs reports whether what the step made here is this machine's to keep, or is
// taken back by way of its result: what is done on no machine in particular belongs to
// whoever executes. But what was taken back for good by one that did not know of what this
// machine made, in another part of a cluster that was cut, is taken back here once more.
func (v *evaluator) belongs(n *node, r *Result) bool {
	if n.step.Where != OnMachine {
		forGood := v.eval.Goal == Deleted && r.Phase == PhaseUndone
		return v.needed.has(n.at) || r.Phase != PhaseNever && !forGood
	}
	return made(n, r) && r.Executor == v.env.Self || v.needed.has(n.at) && v.env.Machine == v.env.Self && !v.outdone(n, r)
}

// outdone: while the decision where the object is to be is blocked, or what comes first does
// not succeed here, a step that two machines did in two parts of a cluster is kept by the one
// that its result tells of, unless that one lets go of a double. It lets go from the top.
func (v *evaluator) outdone(n *node, r *Result) bool {
	if !made(n, r) || r.Executor == v.env.Self || v.lost(r.Executor) || !v.stuck(n) {
		return false
	}
	if !v.double(n) {
		return true
	}
	for i := range n.above.all {
		u, result := v.g.nodes[i], &v.eval.Steps[i].Result
		if u.step != nil && u.step.Where == OnMachine && made(u, result) && result.Executor == r.Executor && !v.double(u) {
			return true
		}
	}
	return false
}

// stuck: something that n stands on is blocked, or failed and is tried again later.
func (v *evaluator) stuck(n *node) bool {
	for i := range n.below.all {
		if m := v.g.nodes[i]; m.step != nil {
			if state := v.eval.Steps[i].State; state == StateBlocked || state == StateRetrying {
				return true
			}
		}
	}
	return false
}
