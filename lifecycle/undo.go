package lifecycle

// backward judges a node on the way down, in reverse order: a step that the goal
// no longer needs, or that belongs to another machine now, is taken back once
// everything that requires it has been.
func (v *evaluator) backward(n *node) {
	s := v.states[n]
	moved := s.State == StateUndoing
	if n.step == nil || (v.needed[n] && !moved) {
		return
	}
	r := s.Result
	if r.Phase == PhaseNever || r.Phase == PhaseUndone {
		return
	}
	if n.step.Undo == nil {
		v.clear(n, s)
		return
	}
	v.takeBack(n, s)
}

// clear forgets the outputs of a step that made nothing outside: while the object
// lives they would be stale; on deletion they go with it.
func (v *evaluator) clear(n *node, s *StepState) {
	if v.goal == Deleted || n.step.Where != OnMachine || len(s.Result.Outputs) == 0 {
		return
	}
	if r := s.Result.Executor; r == v.env.Self && v.users(n) == nil {
		v.eval.Run = append(v.eval.Run, Run{Step: n.step, Undo: true})
	}
}

func (v *evaluator) takeBack(n *node, s *StepState) {
	s.State, s.Machine = StateUndoing, s.Result.Executor
	if u := v.users(n); u != nil {
		s.For = u.name
		return
	}
	switch {
	case v.env.Removed(s.Machine):
		s.State = StateIdle
	case s.Machine != v.env.Self:
		s.For = "machine/" + s.Machine
		if m := v.env.Member(s.Machine); !m.Alive {
			s.Code, s.Since = "MachineSilent", m.Since
		}
	default:
		v.undoHere(n, s)
	}
}

func (v *evaluator) undoHere(n *node, s *StepState) {
	if _, since, ok := v.env.Running(n.name); ok {
		s.Since, s.Until = since, since.Add(n.step.Timeout)
		return
	}
	if s.Result.Code != "" && s.Result.Phase == PhaseFailed && v.env.Now.Before(s.Result.RetryAt) {
		s.Code, s.Message, s.Until = s.Result.Code, s.Result.Message, s.Result.RetryAt
		v.wake(s.Until)
		if s.Result.Code == UndoFailed {
			return
		}
	}
	fields := selectFields(v.o, n.reads)
	v.eval.Run = append(v.eval.Run, Run{Step: n.step, Undo: true, Reads: s.Result.Reads, Inputs: inputs(v.o, n, fields, v.env.Self)})
}

// UndoFailed is the code of a step whose undo failed; it is tried again with backoff.
const UndoFailed = "UndoFailed"

// users returns a node that requires n, directly or not, and still has something to
// take back on the same machine. What this machine made counts even if the replicated
// result is another's.
func (v *evaluator) users(n *node) *node {
	machine := v.states[n].Result.Executor
	for _, u := range n.needed {
		r := v.states[u].Result
		if made(u, r) && r.Executor == machine && !v.env.Removed(machine) {
			return u
		}
		if machine == v.env.Self && u.step != nil && u.step.Undo != nil && v.env.Effects(u.name) {
			return u
		}
		if w := v.users(u); w != nil {
			return w
		}
	}
	return nil
}

// stray takes back what this machine made for an object that has moved on without
// it: the replicated result is another machine's, so nothing is written.
func (v *evaluator) stray(n *node) {
	if n.step == nil || n.step.Undo == nil || !v.env.Effects(n.name) {
		return
	}
	r := v.states[n].Result
	mine := made(n, r) && r.Executor == v.env.Self
	here := v.needed[n] && v.env.Machine == v.env.Self
	if mine || here || v.strayAbove(n) {
		return
	}
	if _, _, running := v.env.Running(n.name); !running {
		v.eval.Run = append(v.eval.Run, Run{Step: n.step, Undo: true, Stray: true, Inputs: inputs(v.o, n, nil, v.env.Self)})
	}
}

// strayAbove reports whether something that requires n is still there.
func (v *evaluator) strayAbove(n *node) bool {
	for _, u := range n.needed {
		if (u.step != nil && u.step.Undo != nil && v.env.Effects(u.name)) || v.strayAbove(u) {
			return true
		}
	}
	return false
}

// conclude finds the one word for the object.
func (v *evaluator) conclude() {
	e := &v.eval
	if v.silentMachine() {
		e.Verdict = Blocked
		return
	}
	e.Verdict = Converged
	for i := range e.Steps {
		switch s := &e.Steps[i]; s.State {
		case StateIdle, StateDone:
		case StateRetrying:
			e.Verdict = Failed
			return
		case StateBlocked:
			e.Verdict = Blocked
			return
		case StateWaiting, StateUndoing:
			if s.Code == "MachineSilent" {
				e.Verdict = Blocked
				return
			}
			e.Verdict = Progressing
		default:
			e.Verdict = Progressing
		}
	}
	e.Gone = v.goal == Deleted && e.Verdict == Converged && len(e.Run) == 0
}

// silentMachine: what the object needs runs on a machine that does not answer, so
// that nothing recorded about it is certain.
func (v *evaluator) silentMachine() bool {
	machine := v.env.Machine
	if machine == "" || machine == v.env.Self || v.goal == Deleted || v.env.Removed(machine) {
		return false
	}
	m := v.env.Member(machine)
	if m.Alive {
		return false
	}
	v.eval.Silent, v.eval.SilentSince = machine, m.Since
	return true
}
