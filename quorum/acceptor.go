package quorum

import "bytes"

// Phase is the half of a round.
type Phase uint8

// The phases.
const (
	Prepare Phase = 1
	Accept  Phase = 2
)

// Request asks a voter for a promise, or to accept a value.
type Request struct {
	Phase  Phase
	Ballot Ballot
	// Value is what to accept; nil when Phase is Prepare.
	Value []byte
}

// Reply is a voter's answer to a Request of the same phase and ballot.
type Reply struct {
	Phase  Phase
	Ballot Ballot
	// OK: promised or accepted. Else Promised is the higher ballot in the way.
	OK       bool
	Promised Ballot
	// Accepted and Value are what the voter had accepted when it promised.
	Accepted Ballot
	Value    []byte
}

// Acceptor is one voter's part of one register. The zero value has promised and
// accepted nothing.
//
// Invariant: Accepted <= Promised, and neither ever goes down.
type Acceptor struct {
	Promised Ballot
	Accepted Ballot
	Value    []byte
}

// Answer handles a request. The caller makes the acceptor durable, if it changed,
// before the reply leaves, and has checked that the ballot is of its present epoch.
func (a *Acceptor) Answer(r Request) (reply Reply, changed bool) {
	reply = Reply{Phase: r.Phase, Ballot: r.Ballot}
	if r.Ballot.IsZero() || r.Ballot.Less(a.Promised) {
		reply.Promised = a.Promised
		return reply, false
	}
	before := *a
	a.Promised = r.Ballot
	reply.OK = true
	if r.Phase == Accept {
		a.Accepted, a.Value = r.Ballot, bytes.Clone(r.Value)
	} else {
		reply.Accepted, reply.Value = a.Accepted, a.Value
	}
	return reply, a.Promised != before.Promised || a.Accepted != before.Accepted
}

// Merge takes over what another voter held, as if its requests had come here as well.
func (a *Acceptor) Merge(o Acceptor) {
	if a.Promised.Less(o.Promised) {
		a.Promised = o.Promised
	}
	if a.Accepted.Less(o.Accepted) {
		a.Accepted, a.Value = o.Accepted, bytes.Clone(o.Value)
	}
}
