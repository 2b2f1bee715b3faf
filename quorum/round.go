package quorum

import (
	"slices"

	"starling.dev/starling/crdt"
)

// Change makes a register's next value from its present one; nil is the value of a
// register that was never written. It must be a pure function. Returning the value
// itself reads it. An error abandons the round, without effect.
type Change func(present []byte) (next []byte, err error)

// State is how a round stands.
type State uint8

// The states of a round.
const (
	// Asking: answers are awaited.
	Asking State = iota
	// Chosen: a majority accepted Value.
	Chosen
	// Beaten: so many voters promised a higher ballot that this one can't win. The value
	// may still take effect later, if some voter accepted it.
	Beaten
	// Abandoned: the change refused the present value.
	Abandoned
)

// Round is one attempt to change a register. Its ballot is never used for another.
type Round struct {
	ballot Ballot
	voters []crdt.MachineID
	need   int
	change Change
	phase  Phase
	state  State
	err    error

	replied  map[crdt.MachineID]bool // in this phase, with OK
	refused  map[crdt.MachineID]bool // in this phase
	highest  Ballot                  // the greatest ballot that was in the way
	accepted Ballot                  // of present
	present  []byte
	value    []byte
}

// NewRound begins an attempt; Request is what to send to every voter. need is how many
// voters make the decision, [Majority] unless the caller knows better; the ballot must
// be new.
func NewRound(ballot Ballot, voters []crdt.MachineID, need int, change Change) *Round {
	return &Round{
		ballot: ballot, voters: slices.Clone(voters), need: need, change: change, phase: Prepare,
		replied: map[crdt.MachineID]bool{}, refused: map[crdt.MachineID]bool{},
	}
}

// Request is what every voter is to be asked now, again if an answer may be lost.
func (r *Round) Request() Request {
	if r.phase == Accept {
		return Request{Phase: Accept, Ballot: r.ballot, Value: r.value}
	}
	return Request{Phase: Prepare, Ballot: r.ballot}
}

// Ballot is the round's own.
func (r *Round) Ballot() Ballot { return r.ballot }

// State tells how the round stands.
func (r *Round) State() State { return r.state }

// Present is the value that the change was given, and Value the one that it made. Both
// are known once the phase is Accept; Value counts only when the state is Chosen.
func (r *Round) Present() []byte { return r.present }

// Value is what is chosen, or may be.
func (r *Round) Value() []byte { return r.value }

// Err is why the change abandoned the round.
func (r *Round) Err() error { return r.err }

// Highest is the greatest ballot that a voter put in the way: the next attempt's
// counter must be greater.
func (r *Round) Highest() Ballot { return r.highest }

// Answers counts the voters that answered in this phase, either way.
func (r *Round) Answers() int { return len(r.replied) + len(r.refused) }

// Take takes one voter's answer, and reports whether the phase is now another one, so
// that the voters have to be asked anew.
func (r *Round) Take(from crdt.MachineID, reply Reply) (again bool) {
	if r.state != Asking || reply.Phase != r.phase || reply.Ballot != r.ballot || !slices.Contains(r.voters, from) {
		return false
	}
	if !reply.OK {
		r.refuse(from, reply)
		return false
	}
	r.replied[from] = true
	if r.phase == Prepare && r.accepted.Less(reply.Accepted) {
		r.accepted, r.present = reply.Accepted, reply.Value
	}
	if len(r.replied) < r.need {
		return false
	}
	if r.phase == Accept {
		r.state = Chosen
		return false
	}
	return r.propose()
}

func (r *Round) refuse(from crdt.MachineID, reply Reply) {
	r.refused[from] = true
	if r.highest.Less(reply.Promised) {
		r.highest = reply.Promised
	}
	if len(r.voters)-len(r.refused) < r.need {
		r.state = Beaten
	}
}

// propose goes from the promises to the value.
func (r *Round) propose() bool {
	if r.value, r.err = r.change(r.present); r.err != nil {
		r.state = Abandoned
		return false
	}
	r.phase = Accept
	r.replied, r.refused = map[crdt.MachineID]bool{}, map[crdt.MachineID]bool{}
	return true
}
