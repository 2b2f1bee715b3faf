package peer

import (
	"bytes"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/quorum"
)

// FuzzDecodeMessage: a frame of a hostile peer never panics, and what is understood is
// understood alike once it was encoded again.
func FuzzDecodeMessage(f *testing.F) {
	heads := crdt.Heads{{1}: {Seq: 7, Hash: crdt.ID{2}}, {3}: {Seq: 1 << 40}}
	for _, m := range []Message{
		Push{Batches: [][]byte{{1, 2, 3}, {}}, Fresh: true}, Push{Last: true}, Digest{Heads: crdt.ID{1}, Auth: crdt.ID{2}},
		Vector{Heads: heads, Reply: true, Full: true}, Ack{Heads: heads}, Have{Heads: heads}, Prune{Actor: crdt.ActorID{6}},
		Graft{Ranges: []crdt.Range{{Actor: crdt.ActorID{1}, From: 1, To: 9}}}, Pull{Ranges: []crdt.Range{{Actor: crdt.ActorID{2}, From: 3, To: 4}}},
		AuthOffer{Heads: []crdt.ID{{9}}, Reply: true}, AuthRecords{Records: [][]byte{{4}}},
		CompactedOffer{Sets: map[crdt.ActorID]crdt.ID{{1}: {2}}, Reply: true}, CompactedLogs{Statements: [][]byte{{4}}, Settled: crdt.ID{7}},
		RollCall{Roll: testRoll()}, Candidate{Ask: true, Token: 5}, CopyAsk{Roll: testRoll()},
		Propose{Key: "lease/1", Request: quorum.Request{Phase: quorum.Accept, Ballot: quorum.Ballot{Epoch: 1, Counter: 2}, Value: []byte{3}}},
		Answered{Key: "lease/1", Reply: quorum.Reply{Phase: quorum.Prepare, OK: true, Value: []byte{4}}},
		Copy{Epoch: 3, Registers: []Register{{Key: "voters", Acceptor: quorum.Acceptor{Value: []byte{5}}}}},
		Ask{Machine: crdt.MachineID{1}, Nonce: 7}, Vote{Machine: crdt.MachineID{1}, Nonce: 7, Silent: true},
	} {
		f.Add(EncodeMessage(m))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := DecodeMessage(frame)
		if err != nil {
			return
		}
		once := EncodeMessage(m)
		again, err := DecodeMessage(once)
		if err != nil {
			t.Fatalf("%T was read from %x, but not from its own encoding %x: %v", m, frame, once, err)
		}
		if twice := EncodeMessage(again); !bytes.Equal(once, twice) {
			t.Fatalf("%T is encoded as %x, then as %x", m, once, twice)
		}
	})
}

func testRoll() Roll {
	return Roll{Epoch: 3, Seats: []Seat{{crdt.MachineID{1}, 9}, {crdt.MachineID{2}, 1 << 40}}, Previous: 2, Before: []Seat{{crdt.MachineID{1}, 9}}}
}

// FuzzDecodeRoll: the value of the voters' register, as any voter may hand it over.
func FuzzDecodeRoll(f *testing.F) {
	f.Add(appendRoll(nil, testRoll()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		roll, err := decodeRoll(raw)
		if err != nil {
			return
		}
		once := appendRoll(nil, roll)
		again, err := decodeRoll(once)
		if err != nil || !bytes.Equal(appendRoll(nil, again), once) {
			t.Fatalf("%x reads as %+v, and then as %+v (%v)", raw, roll, again, err)
		}
	})
}

// FuzzDecodeGrant: the value of a lease's register.
func FuzzDecodeGrant(f *testing.F) {
	f.Add(grant{Holder: crdt.MachineID{1}, Fence: 2, Renewal: 3, Length: 4}.encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := decodeGrant(raw)
		if err != nil {
			return
		}
		if again, err := decodeGrant(g.encode()); err != nil || again != g {
			t.Fatalf("%x reads as %+v, and then as %+v (%v)", raw, g, again, err)
		}
	})
}
