package store

import (
	"fmt"

	"starling.dev/starling/crdt"
)

// Verdict is what the high-water file says about the database.
type Verdict struct {
	State VerdictState
	// HaveCommit and WantCommit are the numbers of the last commit in the
	// database and in the file.
	HaveCommit, WantCommit uint64
	// Have and Want are the peer's own actor and head there.
	Have, Want crdt.HighWater
}

// VerdictState tells the verdicts apart.
type VerdictState int

// The verdicts.
const (
	// Clean: the database has all that was ever acknowledged.
	Clean VerdictState = iota
	// LostTail: the database lost commits HaveCommit+1..WantCommit, acknowledged ones.
	// The peer must not write on as the same actor, and fetches its own entries
	// back from its peers.
	LostTail
	// Unknown: the file is missing or unreadable, so nothing can be promised. To be
	// treated like LostTail.
	Unknown
)

// String is the verdict as a sentence.
func (v Verdict) String() string {
	switch v.State {
	case Clean:
		return fmt.Sprintf("clean: has commit %d", v.HaveCommit)
	case LostTail:
		return fmt.Sprintf("lost its tail: has commit %d with own head %s/%d, acknowledged commit %d with own head %s/%d",
			v.HaveCommit, v.Have.Actor, v.Have.Head.Seq, v.WantCommit, v.Want.Actor, v.Want.Head.Seq)
	default:
		return fmt.Sprintf("unknown: has commit %d, the high-water file is missing or damaged", v.HaveCommit)
	}
}

// judge compares the database's mark with the file's. The database may be ahead by
// the one commit that crashed before it reached the file.
func judge(have, want mark, missing bool) Verdict {
	v := Verdict{
		HaveCommit: have.commit, WantCommit: want.commit,
		Have: have.own, Want: want.own,
	}
	switch {
	case have.commit < want.commit:
		v.State = LostTail
	case missing && have.commit > 0:
		v.State = Unknown
	}
	return v
}
