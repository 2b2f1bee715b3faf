package peer

import (
	"bytes"
	"testing"

	"starling.dev/starling/crdt"
)

// FuzzDecodeMessage: a frame of a hostile peer never panics, and what is understood is
// understood alike once it was encoded again.
func FuzzDecodeMessage(f *testing.F) {
	heads := crdt.Heads{{1}: {Seq: 7, Hash: crdt.ID{2}}, {3}: {Seq: 1 << 40}}
	for _, m := range []Message{
		Push{Batches: [][]byte{{1, 2, 3}, {}}, Fresh: true}, Push{Last: true}, Digest{Heads: crdt.ID{1}, Auth: crdt.ID{2}},
		Vector{Heads: heads, Reply: true, Full: true}, Ack{Heads: heads}, Have{Heads: heads}, Prune{},
		Graft{Ranges: []crdt.Range{{Actor: crdt.ActorID{1}, From: 1, To: 9}}}, Pull{Ranges: []crdt.Range{{Actor: crdt.ActorID{2}, From: 3, To: 4}}},
		AuthOffer{Heads: []crdt.ID{{9}}, Reply: true}, AuthRecords{Records: [][]byte{{4}}},
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
