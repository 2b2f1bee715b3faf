package peer

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// A machine signed two histories of one log. Who saw both convinces who holds the same one
// as itself, though its log has lost the other one since.
func TestAProofOutlivesTheLog(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.cutOff(3)
	one, other := c.cores[0], c.cores[1]
	a, b := history(c, 1), history(c, 2)
	c.cut[[2]int{1, 2}], c.cut[[2]int{2, 1}] = true, true
	c.connect()
	c.show(one, b)
	c.show(other, a, b)
	if _, refused := other.core.journal.log.Refused(a.Actor); !refused {
		t.Fatal("m2 saw two histories, and refuses neither")
	}
	other.batch = slices.DeleteFunc(other.batch, func(kept crdt.Batch) bool { return kept.Actor == a.Actor })
	c.restart(2)
	clear(c.cut)
	c.cutOff(3)
	c.run(30 * time.Second)
	for _, n := range c.cores[:2] {
		if from, refused := n.core.journal.log.Refused(a.Actor); !refused || from != 1 {
			t.Errorf("m%d refuses the log from entry %d on (%v), want from the first one on", n.i, from, refused)
		}
	}
	if x, y := one.core.journal.log.Digest(), other.core.journal.log.Digest(); x != y {
		t.Error("the two hold different entries for good")
	}
}

// history is the beginning of a log that m3 signs, of which there are as many as nonces.
func history(c *cluster, nonce uint64) crdt.Batch {
	key := c.cores[2].key
	birth := crdt.Birth{PublicKey: key.Public().(ed25519.PublicKey), Nonce: 9}
	ch := crdt.Change{
		Object: crdt.Ref{Kind: "Pod", Namespace: "default", Name: "web"}, Author: "user:mallory", HLC: uint64(c.now.UnixMilli()) << 16,
		Auth: c.cores[0].core.trust.Seen(c.cores[2].core.self.ID), Nonce: nonce, Level: Level, Ops: []crdt.Op{{Kind: crdt.OpCreate}},
	}
	return crdt.SignBatch(crdt.Batch{Actor: birth.ActorID(), First: 1, Birth: &birth, Changes: [][]byte{ch.Encode()}}, crdt.Ed25519Signer(key))
}

// show has a node receive what m3 signed.
func (c *cluster) show(to *node, batches ...crdt.Batch) {
	for _, b := range batches {
		to.core.Step(c.now, Received{From: c.cores[2].core.self.ID, Message: Push{Batches: [][]byte{b.Encode()}, Fresh: true}})
		c.run(time.Second)
	}
}
