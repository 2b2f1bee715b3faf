package peer

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Event is one thing that happens to a core. The types below are all there are.
type Event interface{ event() }

// Tick says that time has passed: Ready.Wake was reached, or nothing else happened.
type Tick struct{}

// Received is a message of another member. The signatures in it were checked.
type Received struct {
	From    crdt.MachineID
	Message Message
}

// Membership is what gossip sees of a machine. It is a hint, never a fact.
type Membership struct {
	Machine crdt.MachineID
	Alive   bool
}

// Connection says whether data can be exchanged with a member.
type Connection struct {
	Machine crdt.MachineID
	Up      bool
}

// ActionDone is the end of an action that Ready.Start asked for.
type ActionDone struct {
	Action  uint64
	Outputs lifecycle.Outputs
	Err     error
}

// Lost says that what a step made is no longer there: a container ended, an address
// changed. The step fails, and runs again after its backoff.
type Lost struct {
	Key           api.Key
	ID            string // the object's identity; another life of the name is not meant
	Step          string
	At            time.Time
	Code, Message string
}

// Again says that a step should look at what it made: something changed that is no
// failure. It runs again at once.
type Again struct {
	Key  api.Key
	ID   string
	Step string
}

// Write asks for a change set: all edits, or none.
type Write struct {
	Request uint64
	Author  string // "user:alice"
	Message string
	Edits   []Edit
}

// Manage lets the machine state something in the authorisation log: invite, admit,
// remove. Do runs inside the core and must depend on nothing but its arguments.
type Manage struct {
	Request uint64
	Do      func(log *identity.Log, now time.Time) error
}

// Swept says that the machine was looked over at the start of this life: nothing of pods
// is left on it but what this peer holds (see [Core.Holds]). Runs is what those that run
// were given, by identity.
type Swept struct {
	Runs map[string]lifecycle.Reservation
}

func (Swept) event()      {}
func (Tick) event()       {}
func (Received) event()   {}
func (Membership) event() {}
func (Connection) event() {}
func (ActionDone) event() {}
func (Lost) event()       {}
func (Again) event()      {}
func (Write) event()      {}
func (Manage) event()     {}

// EditKind says what an edit does.
type EditKind int

// The kinds of edits.
const (
	// EditApply makes the spec exactly Fields, creating the object if need be. Fields
	// below "spec." that are absent are unset.
	EditApply EditKind = iota
	// EditPatch sets the Fields and unsets the Unset, and leaves the rest alone.
	EditPatch
	// EditDelete switches the object to the target "deleted".
	EditDelete
	// EditSwitch switches the object to a target, or gives that up; see [Switch]. It may
	// also concern an object that is being deleted.
	EditSwitch
)

// Edit is one object's part of a change set.
type Edit struct {
	Kind   EditKind
	Key    api.Key
	Fields api.Fields
	Unset  []string
	Switch Switch // of an EditSwitch
	// Base, when set, is the rev that the author saw: a conflict is an error.
	Base crdt.ID
	// MustExist and MustNotExist guard against surprises.
	MustExist, MustNotExist bool
}

// Ready is what a turn leads to. The driver makes Commit durable first; nothing else
// of a Ready may leave before that, except Relay.
type Ready struct {
	// Commit must be durable, with one sync, before anything below leaves.
	Commit crdt.Commit
	// Relay are messages that carry others' entries on; they need not wait.
	Relay []Envelope
	// Send are messages that speak for this peer: own entries, acknowledgements,
	// heads and votes. Only after Commit.
	Send []Envelope
	// Serve are ranges of the log to be read from disk and sent. Only after Commit.
	Serve []Serve
	// Start are actions to be run outside the core. Only after Commit, which holds
	// their intents.
	Start []Action
	// Leases tell the host how leases stand. Only after Commit.
	Leases []loops.Lease
	// Cancel names running actions whose context is to be cancelled.
	Cancel []uint64
	// Answers go to those who asked. Only after Commit.
	Answers []Answer
	// Rebuild: what the core holds is no longer what the log on disk says (an actor
	// was convicted of two histories, or a cut leaves out entries that were folded). After
	// this turn it must be built anew.
	Rebuild bool
	// Looked: objects were evaluated, so that where they stand may be another, though
	// nothing was written: an action ended as expected, a machine fell silent.
	Looked bool
	// Wake is when the core wants a Tick if nothing else happens; zero for never.
	Wake time.Time
}

// Envelope is a message on its way.
type Envelope struct {
	To      crdt.MachineID
	Message Message
}

// Serve asks the driver to read the ranges from disk and send them as Push messages,
// the last of which says so, at most ServeLimit bytes in all: the receiver pulls what
// is left when it is ready for more.
type Serve struct {
	To     crdt.MachineID
	Ranges []crdt.Range
	// Fresh: the answer to a Graft, to be passed on.
	Fresh bool
}

// Action is a step to be run, or undone, on the machine.
type Action struct {
	ID      uint64
	Step    *lifecycle.Step
	Undo    bool
	Inputs  lifecycle.Inputs
	Timeout time.Duration
}

// Answer ends a Write.
type Answer struct {
	Request uint64
	Err     *api.Error
	Set     string // the change set's ID, hex
	Objects []Outcome
	// Cursor is what any peer must have seen to answer at least as new.
	Cursor crdt.Heads
	// HeldBy is the other machine that has the change on its disk, or "": then the
	// change is on this disk only.
	HeldBy string
	Alone  bool // there is no other machine in the cluster
	View   View
}

// Outcome says what became of one edit.
type Outcome struct {
	Key    api.Key
	ID     string
	Rev    uint64
	Shown  string // the rev as people name it; "" if there is none
	Change crdt.ID
	Result string // created | changed | unchanged | deleted
}
