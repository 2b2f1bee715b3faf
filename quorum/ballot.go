package quorum

import (
	"cmp"
	"slices"

	"starling.dev/starling/crdt"
)

// Ballot orders attempts. The zero ballot is before all others, and nobody proposes it.
type Ballot struct {
	// Epoch is that of the voters who are asked.
	Epoch   uint64
	Counter uint64
	Machine crdt.MachineID
	// Life tells the lives of the machine's program apart: a program that starts again
	// has forgotten which counters it used.
	Life uint64
}

// Compare orders ballots by epoch first.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Epoch, o.Epoch), cmp.Compare(b.Counter, o.Counter),
		slices.Compare(b.Machine[:], o.Machine[:]), cmp.Compare(b.Life, o.Life))
}

// Less reports whether b comes before o.
func (b Ballot) Less(o Ballot) bool { return b.Compare(o) < 0 }

// IsZero reports whether it is no one's ballot.
func (b Ballot) IsZero() bool { return b == Ballot{} }

// Majority is how many of n voters any two of which share at least one.
func Majority(n int) int { return n/2 + 1 }
