package lifecycle

// rank orders the states of steps by how much they hold an object up. A step that
// waits has the rank of what it waits for, so that the worst cause can be named.
type rank uint8

const (
	rankFine     rank = iota // done, or not needed
	rankMoving               // runs, or is about to
	rankMachine              // another machine is about to act
	rankRetrying             // failed, and tried again
	rankSilent               // a machine has to act and does not answer
	rankBlocked              // failed until something changes
)

// failed: waiting any longer will not help those that are only ordered behind.
func (r rank) failed() bool { return r == rankRetrying || r == rankBlocked }

func (v *evaluator) rank(s *StepState) rank {
	switch s.State {
	case StateRunning, StateReady:
		return rankMoving
	case StateRetrying:
		return rankRetrying
	case StateBlocked:
		return rankBlocked
	case StateWaiting, StateUndoing:
		return v.rankWaiting(s)
	}
	return rankFine
}

func (v *evaluator) rankWaiting(s *StepState) rank {
	if n, ok := v.g.index[s.For]; ok && s.For != "" {
		return max(v.ranks[n.at], rankMoving)
	}
	if child, verdict := v.child(v.g.index[s.Step]); child != "" && child == s.For {
		return rankOfChild(verdict)
	}
	switch {
	case s.Code == CodeSilent:
		return rankSilent
	case s.Code == UndoFailed && v.env.Now.Before(s.Until):
		return rankRetrying
	case s.For != "":
		return rankMachine
	}
	return rankMoving
}

// rankOfChild: what holds a child up on its way down holds its parent up.
func rankOfChild(verdict State) rank {
	switch verdict {
	case Blocked:
		return rankBlocked
	case Failed:
		return rankRetrying
	}
	return rankMoving
}

// conclude finds the one word for the object: that of the step which holds it up most.
// A step that is only wanted holds nothing up once it failed.
func (v *evaluator) conclude() {
	e := &v.eval
	worst := rankFine
	for i := range e.Steps {
		if r := v.ranks[i]; v.hard.has(i) || e.Steps[i].State == StateUndoing || !r.failed() {
			worst = max(worst, r)
		}
	}
	switch {
	case v.silentMachine(), worst >= rankSilent:
		e.Verdict = Blocked
	case worst == rankRetrying:
		e.Verdict = Failed
	case worst > rankFine:
		e.Verdict = Progressing
	default:
		e.Verdict = Converged
	}
	e.Gone = e.Goal == Deleted && e.Verdict == Converged && len(e.Run) == 0 && v.strays == 0
}

// silentMachine: what the object needs runs on a machine that does not answer, so
// that nothing recorded about it is certain.
func (v *evaluator) silentMachine() bool {
	machine := v.env.Machine
	if machine == "" || machine == v.env.Self || v.eval.Goal == Deleted || v.env.Removed(machine) {
		return false
	}
	m := v.env.Member(machine)
	if m.Alive {
		return false
	}
	v.eval.Silent, v.eval.SilentSince = machine, m.Since
	return true
}
