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
		s := StepState{Step: e.Goal, State: StateWaiting, For: "machine/" + e.Silent, Machine: e.Silent, Since: e.SilentSince, Code: "MachineSilent"}
		return []Link{{StepState: s}}
	}
	if cause, ok := g.undoing(e); ok {
		return cause
	}
	at, ok := g.index[e.Goal]
	if !ok {
		return nil
	}
	states := map[string]StepState{}
	for _, s := range e.Steps {
		states[s.Step] = s
	}
	var chain []Link
	for s := states[at.name]; s.State != StateDone && s.State != StateIdle; {
		chain = append(chain, Link{StepState: s, Why: why(at, s.Step)})
		next, ok := g.index[s.For]
		if !ok || s.State != StateWaiting {
			break
		}
		at, s = g.index[s.Step], states[next.name]
	}
	return chain
}

// undoing explains an object that is on its way down.
func (g *Graph) undoing(e *Evaluation) ([]Link, bool) {
	for _, s := range e.Steps {
		if s.State == StateUndoing && s.For == "" || s.State == StateUndoing && s.Code == "MachineSilent" {
			return []Link{{StepState: s, Why: "undo"}}, true
		}
	}
	return nil, false
}

func why(n *node, next string) string {
	for _, r := range n.requires {
		if r.name == next {
			return "requires"
		}
	}
	return "after"
}
