package crdt

import (
	"bytes"
	"testing"
)

// Each decoder must never panic, and accept one encoding per value only.

func FuzzDecodeChange(f *testing.F) {
	for _, c := range []Change{typical(), typicalResult(), everything(), {}} {
		f.Add(c.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeChange(b)
		if err != nil {
			return
		}
		if !bytes.Equal(c.Encode(), b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, c, c.Encode())
		}
		if ChangeID(ActorID{}, b) != c.ID() {
			t.Fatalf("%x has two IDs", b)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(typicalBatch(typical(), typicalResult()).Encode())
	f.Add(firstBatch(typical()).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := DecodeBatch(b)
		if err == nil && !bytes.Equal(batch.Encode(), b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, batch, batch.Encode())
		}
	})
}

func FuzzDecodeBirth(f *testing.F) {
	f.Add(firstBatch(typical()).Birth.Encode())
	f.Add(Birth{PublicKey: make([]byte, 32)}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		birth, err := DecodeBirth(b)
		if err == nil && !bytes.Equal(birth.Encode(), b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, birth, birth.Encode())
		}
	})
}

// FuzzApply folds whatever decodes: no change that an attacker can sign may panic
// the fold, or make it depend on order.
func FuzzApply(f *testing.F) {
	f.Add(typical().Encode(), everything().Encode())
	create := Change{Object: web, Author: "user:a", Ops: []Op{{Kind: OpCreate}}}
	f.Add(create.Encode(), Change{Object: web, Author: "user:a", Incarnation: create.ID(), Parents: []ID{create.ID()}, Ops: []Op{{Kind: OpDelete}}}.Encode())
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var entries []entry
		for _, raw := range [][]byte{a, b} {
			c, err := DecodeChange(raw)
			if err != nil {
				return
			}
			entries = append(entries, entry{c, ChangeID(ActorID{}, raw)})
		}
		there, back := newState(t, raised()), newState(t, raised())
		applyAll(there, entries[0], entries[1])
		applyAll(back, entries[1], entries[0], entries[1])
		if dump(there) != dump(back) || there.Hash() != back.Hash() {
			t.Fatalf("the order decides:\n%s\n---\n%s", dump(there), dump(back))
		}
	})
}
