package lifecycle

// Recorded tells what the results of an object say of each step, as they stand: whether
// they are current is not asked. It is for looking at an object as it was, when whoever was
// to run a step, and what is due now, mean nothing any more.
func (g *Graph) Recorded(o *Object) []StepState {
	states := make([]StepState, 0, len(g.nodes))
	var done set
	for _, n := range g.nodes {
		s := StepState{Step: n.name, Loop: n.loop, Target: n.step == nil, State: StateIdle}
		if n.step != nil {
			s.Result = o.Results[n.name]
			s.Machine, s.Code, s.Message = s.Result.Executor, s.Result.Code, s.Result.Message
			s.State = recorded(s.Result.Phase)
		} else if n.requires&^done == 0 {
			s.State = StateDone
		}
		if s.State == StateDone || n.step != nil && !n.concerns(o) {
			done.add(n.at)
		}
		states = append(states, s)
	}
	return states
}

func recorded(p Phase) State {
	switch p {
	case PhaseStarted:
		return StateRunning
	case PhaseDone:
		return StateDone
	case PhaseFailed:
		return StateRetrying
	}
	return StateIdle
}
