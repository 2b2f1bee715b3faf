package lifecycle

import "starling.dev/starling/api"

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
