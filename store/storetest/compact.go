package storetest

import (
	"slices"
	"testing"

	"starling.dev/starling/crdt"
)

// Log makes an actor's log, as chained as a real one: its batches have so many changes of
// size bytes.
func Log(actor crdt.ActorID, size int, counts ...int) (log []crdt.Batch) {
	head := crdt.Head{}
	for _, count := range counts {
		b := Batch(actor, head.Seq+1, count, size)
		if b.First > 1 {
			b.Prev = head.Hash
		}
		b.Sig = append(slices.Clone(b.Sig[:60]), byte(b.First), byte(b.First>>8), byte(b.First>>16), 1)
		head = b.Head()
		log = append(log, b)
	}
	return log
}

// Compact makes one batch of several that follow each other, with stubs at the seqs.
func Compact(seqs crdt.Seqs, from ...crdt.Batch) crdt.Batch {
	b := from[0]
	b.Changes = nil
	for _, f := range from {
		b.Changes, b.Sig = append(b.Changes, f.Changes...), f.Sig
	}
	for i, c := range b.Changes {
		if seqs.Has(b.First + uint64(i)) {
			b.Changes[i] = crdt.StubOf(crdt.ChangeID(b.Actor, c))
		}
	}
	return b
}

func testCompacted(t *testing.T, d Disk) {
	log, other := Log(Actor(1), 300, 3, 1, 2, 1), Log(Actor(2), 300, 2)
	commit(t, d, crdt.Commit{Batches: append(slices.Clone(log), other...), HighWater: Own(Actor(1), 7)})
	small := Compact(crdt.Seqs{{From: 2, To: 5}}, log[:3]...)
	want := []crdt.Batch{small, log[3], other[0]}
	statement := crdt.LocalWrite{Key: "compacted", Value: []byte("2-5")}
	commit(t, d, crdt.Commit{Compacted: []crdt.Batch{small}, Local: []crdt.LocalWrite{statement}})
	sameBatches(t, contents(t, d).Batches, want)
	crash(t, d)
	c := contents(t, d)
	sameBatches(t, c.Batches, want)
	sameLocal(t, c.Local, []crdt.LocalWrite{statement})
	if c.HighWater != Own(Actor(1), 7) {
		t.Errorf("own head %v", c.HighWater)
	}

	// It is compacted further, the log goes on, and what was there before does not come back.
	smaller := Compact(crdt.Seqs{{From: 2, To: 7}}, small, log[3])
	next := Log(Actor(1), 300, 3, 1, 2, 1, 1)[4]
	commit(t, d, crdt.Commit{Compacted: []crdt.Batch{smaller}, Batches: []crdt.Batch{next, log[0]}})
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, []crdt.Batch{smaller, next, other[0]})
}

func testCompactedMisfits(t *testing.T, d Disk) {
	log := Log(Actor(1), 100, 2, 2, 2)
	commit(t, d, crdt.Commit{Batches: log})
	altered := Compact(crdt.Seqs{{From: 1, To: 1}}, log[0])
	altered.Changes[0] = crdt.StubOf(crdt.ID{1})
	otherwise := Compact(crdt.Seqs{{From: 1, To: 1}}, log[0])
	otherwise.Sig = slices.Clone(log[1].Sig)
	within := Compact(crdt.Seqs{{From: 3, To: 3}}, log[1])
	within.Changes = within.Changes[:1]
	unknown := Log(Actor(2), 100, 2)[0]
	commit(t, d, crdt.Commit{Compacted: []crdt.Batch{altered, otherwise, within, unknown}, Local: []crdt.LocalWrite{{Key: "k", Value: []byte("v")}}})
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, log)
}

func testCompactedLarge(t *testing.T, d Disk) {
	counts := slices.Repeat([]int{1}, 3000)
	log := Log(Actor(1), 2000, counts...)
	commit(t, d, crdt.Commit{Batches: log})
	var c crdt.Commit
	for i := 0; i < len(log); i += 500 {
		c.Compacted = append(c.Compacted, Compact(crdt.Seqs{{From: 1, To: 2990}}, log[i:i+500]...))
	}
	commit(t, d, c)
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, c.Compacted)
}

// testLongerBatch: a batch that was refused a place, since another begins as it does, ends
// nothing; one that takes its place at the end of the log holds what stands behind it, too.
func testLongerBatch(t *testing.T, d Disk) {
	log := Log(Actor(1), 100, 2, 1, 1, 2)
	commit(t, d, crdt.Commit{Batches: log[:2]})
	long := Compact(crdt.Seqs{{From: 1, To: 6}}, log...)
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{long}})
	sameBatches(t, contents(t, d).Batches, log[:2])
	tail := long.After(log[1].Head())
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{tail}})
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, []crdt.Batch{log[0], log[1], tail})
}
