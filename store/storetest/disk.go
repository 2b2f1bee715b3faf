package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"starling.dev/starling/crdt"
)

// Disk is a disk as the core sees it. Its methods are called by one goroutine.
type Disk interface {
	// Commit makes c durable, atomically, before it returns nil.
	Commit(c crdt.Commit) error
	// Recover returns what is durable.
	Recover() (Contents, error)
	// Crash stops the machine and starts it again: what was not made durable may
	// be gone. The disk stays usable.
	Crash() error
}

// Contents is all that is on a disk.
type Contents struct {
	// Batches in the order of (actor, first).
	Batches []crdt.Batch
	// Local are the keys of the private key space in order.
	Local []crdt.LocalWrite
	// HighWater is the own head of the last commit that named one.
	HighWater crdt.HighWater
	// Clean is false when acknowledged commits are known to be lost.
	Clean bool
}

// Actor makes an actor's ID for tests.
func Actor(n byte) crdt.ActorID { return crdt.ActorID{0: n, 15: n} }

// Batch makes a batch with count changes of size bytes each. Its content depends
// only on the arguments. Its signature is not one.
func Batch(actor crdt.ActorID, first uint64, count, size int) crdt.Batch {
	b := crdt.Batch{Actor: actor, First: first, Sig: bytes.Repeat([]byte{7}, 64)}
	if first == 1 {
		b.Birth = &crdt.Birth{PublicKey: bytes.Repeat([]byte{actor[0]}, 32), Nonce: 1}
	} else {
		b.Prev = crdt.ID{0: byte(first), 1: actor[0]}
	}
	for i := range count {
		seed := fmt.Appendf(nil, "%s/%d/", actor, first+uint64(i))
		change := bytes.Repeat(seed, 1+size/len(seed))[:size]
		b.Changes = append(b.Changes, change)
	}
	return b
}

// Own makes the high-water of an actor's head for tests.
func Own(actor crdt.ActorID, seq uint64) crdt.HighWater {
	return crdt.HighWater{Actor: actor, Head: crdt.Head{Seq: seq, Hash: crdt.ID{0: byte(seq), 31: 9}}}
}

func contents(t *testing.T, d Disk) Contents {
	t.Helper()
	c, err := d.Recover()
	if err != nil {
		t.Fatalf("recover: %v", err)
	}
	if !c.Clean {
		t.Fatal("the disk says that it lost acknowledged commits")
	}
	return c
}

func commit(t *testing.T, d Disk, c crdt.Commit) {
	t.Helper()
	if err := d.Commit(c); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// sameBatches compares the encoded bytes: they are what is signed and relayed.
func sameBatches(t *testing.T, got, want []crdt.Batch) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i].Encode(), want[i].Encode()) {
			t.Errorf("batch %d is %s/%d, want %s/%d, or differs inside",
				i, got[i].Actor, got[i].First, want[i].Actor, want[i].First)
		}
	}
}

func sameLocal(t *testing.T, got, want []crdt.LocalWrite) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d local keys, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Key != want[i].Key || !bytes.Equal(got[i].Value, want[i].Value) {
			t.Errorf("local key %q (%d bytes), want %q (%d bytes)",
				got[i].Key, len(got[i].Value), want[i].Key, len(want[i].Value))
		}
	}
}
