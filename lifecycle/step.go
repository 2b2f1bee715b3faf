package lifecycle

import (
	"context"
	"time"

	"starling.dev/starling/api"
)

// Where says which peer runs a step.
type Where int

// The places of a step.
const (
	// OnExecutor: the peer chosen by rendezvous hashing of the object over the
	// eligible members.
	OnExecutor Where = iota
	// OnMachine: the machine that status.machine names; for a Machine, itself.
	OnMachine
)

// Loop is a control loop: it owns fields, declares what it reads, and runs only
// when called.
type Loop struct {
	Name string
	Kind string
	// Claims are resources outside the cluster's objects that no other loop may
	// touch: "nftables:starling", "containerd".
	Claims []string
	// Entries is how many entries the loop may write about one object at once; zero:
	// [DefaultEntries].
	Entries int
	Steps   []Step
}

// Step is one action of a loop at one place in an object's lifecycle.
type Step struct {
	Name string
	// If lists fields of which an object has to have one for the step to concern it; others
	// pass it over. Empty: it concerns every object.
	If []string
	// After and Before order steps and targets; they require nothing.
	After, Before []string
	// Requires: the step runs only when these are done, and is undone before they
	// are. Wants: these run first as well, but a failure does not hold the step back.
	Requires, Wants []string
	// RequiredBy and WantedBy say the same from the other side: a step hooks into a
	// lifecycle without any other definition being touched.
	RequiredBy, WantedBy []string
	// Goal steps may be switched to, as goal targets may.
	Goal  bool
	Where Where
	// Reads are the field paths (prefixes; "*" for one map key) that the step's
	// success depends on: a change makes it dirty.
	Reads []string
	// Authors selects whose edits of the spec call the step: it reads the spec as one of
	// them last left it, so that edits by others neither reach it nor make it dirty, and an
	// object that none of them ever edited does not concern it. The zero value: everybody.
	Authors api.Authors
	// Consults wake the step while it is blocked or failed: kinds ("Machine"),
	// "members", or field paths.
	Consults []string
	// Feedback lists those reads that are written by a step further down. They alone
	// may run the step again Budget times in one generation, then with backoff.
	Feedback []string
	// Budget is that of the feedback reads; zero: [DefaultBudget].
	Budget int
	// Outputs are the field paths that the step owns and writes.
	Outputs []string
	// Reserves: the step promises the object an amount of its machine. The promise is
	// kept, beside the replicated state, until everything that requires it is undone.
	Reserves bool
	// Timeout bounds one attempt. Required.
	Timeout time.Duration
	// Every has a step that acts done again in this interval, though nothing that it reads
	// changed: it looks at what no field tells. Zero for never. An object at rest stays
	// converged meanwhile.
	Every time.Duration
	// Retry says when a failed attempt is repeated.
	Retry Retry

	// Exactly one of Decide, Manage and Do is set.

	// Decide is a pure function of its inputs and of what it consults; it runs
	// inside the core.
	Decide func(View, Inputs) (Outputs, error)
	// Manage decides as Decide does, and owns objects of the kind Children: it says
	// what becomes of them, and is called again until it has nothing more to say. What
	// it reads of them has to come from the kind's derived fields, so that it runs again
	// when one of them changes. On the way down its children are deleted before it
	// counts as taken back. A step that acts may own children as well; see [Owns].
	Manage   func(View, Inputs) (Outputs, []Child, error)
	Children string
	// Do acts, outside the core. It must be cancellable and idempotent: it is run
	// again after a restart of the peer, to adopt or repair what is there.
	Do func(context.Context, Host, Inputs) (Outputs, error)
	// Undo takes Do back on the way down; nil if there is nothing to take back.
	Undo func(context.Context, Host, Inputs) error
	// Expect foretells what Do will write, for plans: a pure function. Without it, Do
	// is expected to write what it wrote before.
	Expect func(Inputs) Outputs
}

// Retry is an exponential backoff: Base, doubled per failure in a row, at most Max.
// The zero value retries after 1 s, 2 s, … up to 1 min.
type Retry struct {
	Base, Max time.Duration
}

// Inputs is what a step is given: nothing else of the object is visible to it.
type Inputs struct {
	Key api.Key
	// ID is the object's identity (incarnation) in hex, stable for its life.
	ID string
	// Rev is the rev whose spec is read.
	Rev uint64
	// Fields holds the declared reads, defaults filled in.
	Fields api.Fields
	// Previous holds the step's own outputs of its last attempt, so that acting
	// twice is harmless.
	Previous Outputs
	// Machine is the name of the machine that runs the step.
	Machine string
	// Attempt counts from 1.
	Attempt uint64
}

// Outputs are the fields that a step writes; they must lie under its declared
// Outputs.
type Outputs = api.Fields

// Host is what an acting step may touch. The engine only hands it through; package
// loops gives it its methods.
type Host any

// View is what a deciding step may look at beside its inputs: the local copy of the
// cluster. It must not be kept after Decide returns.
type View interface {
	// Objects returns the live objects of a kind, sorted by key. They must not be
	// changed.
	Objects(kind string) []*Object
	// Member tells how a machine is seen from here.
	Member(machine string) Member
	// Reserved sums what the live objects placed on a machine reserve, except one.
	Reserved(machine string, except api.Key) Reservation
	// Placed counts the live objects placed on a machine, except one.
	Placed(machine string, except api.Key) int
	// Siblings counts on each machine the objects that have the same parent as this one,
	// which is not among them. It must not be changed.
	Siblings(of api.Key) map[string]int
	// Held sums what this machine itself has promised, except to the object ID: the
	// ledger that the machine, as the final judge, admits by.
	Held(exceptID string) Reservation
	// Now is the time of the event that is being handled.
	Now() time.Time
	// Random draws the next 64 bits from the core's seeded source.
	Random() uint64
}

// Member is a machine's liveness, as seen by this peer.
type Member struct {
	// Alive is false when gossip finds the machine failed.
	Alive bool
	// Since is when that was first seen.
	Since time.Time
	// Silent is true once a majority of the voters, asked now, find it silent too.
	Silent bool
	// Removed is true for a machine that does not belong to the cluster (any more).
	Removed bool
}

// Error is how a step fails with more than a sentence.
type Error struct {
	// Code is one of the codes in package api ("ImageNotFound").
	Code string
	// Message is one sentence: what is wrong, where, and what to do.
	Message string
	// Wait: retrying alone will not help; run again when something consulted or read
	// changes (and now and then, with backoff).
	Wait bool
	// Outputs are written with the failure (a refusal that is fed back, say).
	Outputs Outputs
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Message }
