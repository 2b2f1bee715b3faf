package peer

import (
	"encoding/binary"

	"starling.dev/starling/quorum"
)

// RollCall tells who the voters are, as far as the sender knows. Whoever knows a later
// roll answers with that.
type RollCall struct{ Roll Roll }

// Propose carries one half of a round to a voter, for the register Key.
type Propose struct {
	Key     string
	Request quorum.Request
}

// Answered is the voter's reply.
type Answered struct {
	Key   string
	Reply quorum.Reply
}

// Candidate asks a machine for the token that its seat would have (Ask), or tells it.
type Candidate struct {
	Ask   bool
	Token uint64
}

// CopyAsk asks a voter of the epoch before for all that it holds; Roll is the new one,
// so that the voter leaves that epoch first.
type CopyAsk struct{ Roll Roll }

// Copy is all that a voter held when it had left the epoch before Epoch.
type Copy struct {
	Epoch     uint64
	Registers []Register
}

// Register is one voter's part of one register.
type Register struct {
	Key      string
	Acceptor quorum.Acceptor
}

func (RollCall) kind() byte  { return 32 }
func (Propose) kind() byte   { return 33 }
func (Answered) kind() byte  { return 34 }
func (Candidate) kind() byte { return 35 }
func (CopyAsk) kind() byte   { return 36 }
func (Copy) kind() byte      { return 37 }

// appendVoting writes the fields of the messages of this file.
func appendVoting(b []byte, m Message) []byte {
	switch m := m.(type) {
	case RollCall:
		return appendRoll(b, m.Roll)
	case Propose:
		b = append(appendBytes(b, []byte(m.Key)), byte(m.Request.Phase))
		return appendBytes(appendBallot(b, m.Request.Ballot), m.Request.Value)
	case Answered:
		p := m.Reply
		b = appendBallot(append(appendBytes(b, []byte(m.Key)), byte(p.Phase)), p.Ballot)
		return appendAcceptor(appendBool(b, p.OK), quorum.Acceptor{Promised: p.Promised, Accepted: p.Accepted, Value: p.Value})
	case Candidate:
		return binary.AppendUvarint(appendBool(b, m.Ask), m.Token)
	case CopyAsk:
		return appendRoll(b, m.Roll)
	case Copy:
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.Epoch), uint64(len(m.Registers)))
		for _, r := range m.Registers {
			b = appendAcceptor(appendBytes(b, []byte(r.Key)), r.Acceptor)
		}
	}
	return b
}

// voting reads the messages of this file; nil for another kind.
func (r *reader) voting(kind byte) Message {
	switch kind {
	case RollCall{}.kind():
		return RollCall{Roll: r.roll()}
	case Propose{}.kind():
		return Propose{Key: string(r.bytes()), Request: quorum.Request{Phase: r.phase(), Ballot: r.ballot(), Value: r.bytes()}}
	case Answered{}.kind():
		m := Answered{Key: string(r.bytes()), Reply: quorum.Reply{Phase: r.phase(), Ballot: r.ballot(), OK: r.bool()}}
		a := r.acceptor()
		m.Reply.Promised, m.Reply.Accepted, m.Reply.Value = a.Promised, a.Accepted, a.Value
		return m
	case Candidate{}.kind():
		return Candidate{Ask: r.bool(), Token: r.uvarint()}
	case CopyAsk{}.kind():
		return CopyAsk{Roll: r.roll()}
	case Copy{}.kind():
		m := Copy{Epoch: r.uvarint()}
		for range r.count(maxRegisters, 10) {
			m.Registers = append(m.Registers, Register{Key: string(r.bytes()), Acceptor: r.acceptor()})
		}
		return m
	}
	return nil
}

func (r *reader) phase() quorum.Phase {
	b := r.take(1)
	if len(b) == 0 {
		return 0
	}
	return quorum.Phase(b[0])
}
