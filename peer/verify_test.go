package peer

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// A long answer is checked on many cores: what is bad in it is left out, the rest stays in
// order, and later batches of an actor count though only this message tells its key.
func TestManyBatchesAreCheckedInOrder(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	log, err := identity.Begin(identity.BeginConfig{
		Name: "test", MachineName: "m1", RootKey: stranger, MachineKey: key, Clock: identity.ClockAt(time.UnixMilli(1)),
	}, bytes.NewReader(bytes.Repeat([]byte{7}, 4096)))
	if err != nil {
		t.Fatal(err)
	}
	const count = 8 * shareFrom
	for _, first := range []int{0, 1} { // with the birth and without
		v := NewVerifier(crdt.VerifyEd25519)
		v.Update(log.Snapshot())
		all := chain(key, count)
		var want [][]byte
		for i := range all {
			switch {
			case i%7 == 3:
				all[i][len(all[i])-1] ^= 1 // its signature
			case i%7 == 5:
				all[i] = chain(stranger, 1)[0]
			case first == 0:
				want = append(want, all[i])
			}
		}
		m, err := v.Message(Push{Batches: all[first:], Fresh: true})
		got := m.(Push)
		if !slices.EqualFunc(got.Batches, want, bytes.Equal) || len(got.entries()) != len(want) {
			t.Errorf("from batch %d on %d of %d are taken, want %d", first+1, len(got.Batches), len(all)-first, len(want))
		}
		for i, in := range got.entries() {
			if !bytes.Equal(in.raw, want[i]) || !bytes.Equal(in.batch.Encode(), want[i]) {
				t.Fatalf("entry %d was read from another batch", i)
			}
		}
		if err == nil || first == 1 && !errors.Is(err, errStranger) {
			t.Errorf("nothing is said of what was left out: %v", err)
		}
	}
}

// chain is the beginning of an actor's log, in batches of one change.
func chain(key ed25519.PrivateKey, n int) (all [][]byte) {
	birth := crdt.Birth{PublicKey: key.Public().(ed25519.PublicKey), Nonce: 9}
	head := crdt.Head{}
	for i := range n {
		c := crdt.Change{Object: crdt.Ref{Kind: "Allow", Name: "a"}, Author: "user:alice", HLC: 1 << 16, Nonce: uint64(i), Level: Level, Ops: []crdt.Op{{Kind: crdt.OpCreate}}}
		b := crdt.Batch{Actor: birth.ActorID(), First: head.Seq + 1, Prev: head.Hash, Changes: [][]byte{c.Encode()}}
		if i == 0 {
			b.Birth = &birth
		}
		b = crdt.SignBatch(b, crdt.Ed25519Signer(key))
		head = b.Head()
		all = append(all, b.Encode())
	}
	return all
}
