package lifecycle

// Link is one link of the causal chain from a goal down to its cause.
type Link struct {
	StepState
	// Why is the relation to the link before: "requires" or "after".
	Why string
}

// Explain walks from the goal down to what holds it up: the shortest true chain.
// The last link is the cause: a step that failed, runs, or waits for a machine.
// A converged object has no chain.
func (g *Graph) Explain(e *Evaluation) []Link {
	if e.Silent != "" {
		s := StepState{Step: e.Goal, State: StateWaiting, For: "machine/" + e.Silent, Machine: e.Silent, Since: e.SilentSince, Code: CodeSilent}
		return []Link{{StepState: s}}
	}
	if cause, ok := g.undoing(e); ok {
		return cause
	}
	n, ok := g.index[e.Goal]
	if !ok {
		return inTheWay(e)
	}
	var chain []Link
	why := ""
	for n != nil {
		s := e.Steps[n.at]
		if s.State == StateDone || s.State == StateIdle || s.State == StateSkipped {
			break
		}
		chain = append(chain, Link{StepState: s, Why: why})
		next := g.index[s.For]
		if s.State != StateWaiting || next == nil {
			break
		}
		why = "after"
		if n.requires.has(next.at) {
			why = "requires"
		}
		n = next
	}
	if len(chain) == 0 {
		return inTheWay(e)
	}
	return chain
}

// inTheWay explains an object of which no step leads from the goal to the cause: what keeps
// one that is deleted, or what still goes on below a step that is passed over. It is the
// step that stands worst.
func inTheWay(e *Evaluation) []Link {
	if e.Verdict == Converged {
		return nil
	}
	for _, state := range []State{StateBlocked, StateRetrying, StateRunning, StateReady, StateUndoing, StateWaiting} {
		for _, s := range e.Steps {
			if s.State == state {
				return []Link{{StepState: s}}
			}
		}
	}
	return nil
}

// undoing explains an object that is on its way down: by the step that waits for no other
// one.
func (g *Graph) undoing(e *Evaluation) ([]Link, bool) {
	for _, s := range e.Steps {
		if s.State == StateUndoing && g.index[s.For] == nil {
			return []Link{{StepState: s, Why: "undo"}}, true
		}
	}
	return nil, false
}
