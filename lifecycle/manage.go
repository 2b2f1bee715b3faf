package lifecycle

import (
	"time"

	"starling.dev/starling/api"
)

// CodeTimedOut is the code of a step that waited longer than its timeout.
const CodeTimedOut = api.TimedOut

// Child is another object that a step owns: the one of a slot. Its key derives from the
// parent's identity and the slot, so that two peers that both make it make one name.
type Child struct {
	Key  api.Key
	Slot int
	// Fields is the spec that the child is to have; nil to leave it as it is.
	Fields api.Fields
	// Delete takes the child down.
	Delete bool
	// Note says why, for the child's history.
	Note string
}

// Pending is how a step that decides says that it has done what it could, and that
// something else has to happen first, which will wake it: a probe that has to pass, a
// child that has to start. The step counts as running until its timeout.
type Pending struct {
	// Message says in one sentence what it waits for.
	Message string
}

// Error returns the sentence.
func (p *Pending) Error() string { return p.Message }

// Owns is how a step that acts, and has children, says what is to become of them: as its
// error, beside its outputs. It is no failure by itself.
type Owns struct {
	// Children are all that there is to be: those that are not among them are deleted.
	Children []Child
	// Err is how the step ended; nil if it is done, a [Pending] if it waits for a child.
	Err error
}

// Error returns how the step ended.
func (o *Owns) Error() string {
	if o.Err == nil {
		return "done"
	}
	return o.Err.Error()
}

// Unwrap returns how the step ended.
func (o *Owns) Unwrap() error { return o.Err }

// again: this machine learnt something that no field tells, so that the step decides
// once more.
func (v *evaluator) again(n *node) bool {
	return n.step.Do == nil && v.env.Again != nil && v.place(n) == v.env.Self && v.env.Again(n.name)
}

// attends judges a step that is [Pending]. What holds up its children holds it up. One that
// acts and has said nothing was only begun, and is not over: whoever began it may be gone.
func (v *evaluator) attends(n *node, s *StepState) bool {
	r := &s.Result
	if n.step.Do != nil && (n.step.Children == "" || r.Message == "") || !v.holds(n, r) {
		return false
	}
	s.State, s.Since, s.Until, s.Message = StateRunning, r.Started, r.Started.Add(n.step.Timeout), r.Message
	if v.env.Now.Before(s.Until) {
		v.wake(s.Until)
	} else {
		s.State, s.Code, s.Until = StateBlocked, CodeTimedOut, time.Time{}
	}
	child, verdict := v.child(n)
	s.For = child
	switch verdict {
	case Blocked:
		s.State = StateBlocked
	case Failed:
		s.State = StateRetrying
	}
	return true
}

func (v *evaluator) child(n *node) (key string, verdict State) {
	if n.step.Children == "" || v.env.Child == nil {
		return "", ""
	}
	return v.env.Child(n.name)
}

// disown takes a managing step back, on its executor: it is over when no child is left.
func (v *evaluator) disown(n *node, s *StepState) {
	child, _ := v.child(n)
	if v.needed.has(n.at) || v.skipped(n) || child == "" && (s.Result.Phase == PhaseNever || s.Result.Phase == PhaseUndone) {
		return
	}
	s.State, s.Machine = StateUndoing, v.env.Executor
	v.down.add(n.at)
	switch u := v.user(n, s.Machine); {
	case u != nil:
		s.For = u.name
	case s.Machine == v.env.Self:
		s.For = child
		v.run(Run{Step: n.step, Undo: true, Reads: s.Result.Reads})
	case child != "":
		s.For = child
	default:
		v.waitFor(s, s.Machine)
	}
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}
