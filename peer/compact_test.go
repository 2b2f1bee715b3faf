package peer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// hashAt, stored and compact are what the node's disk does with its log.
func (n *node) hashAt(actor crdt.ActorID, seq uint64) (crdt.ID, bool) {
	for _, b := range n.batch {
		if b.Actor == actor && b.First <= seq && seq <= b.Last() {
			return b.Hashes()[seq-b.First], true
		}
	}
	return crdt.ID{}, false
}

func (n *node) stored(r crdt.Range, maxBytes int) (raws [][]byte, _ error) {
	n.reads++
	size := 0
	for _, b := range n.batch {
		if b.Actor == r.Actor && b.Last() >= r.From && b.First <= r.To && size < maxBytes {
			raws = append(raws, b.Encode())
			size += len(raws[len(raws)-1])
		}
	}
	return raws, nil
}

func (n *node) compact(batches []crdt.Batch) {
	for _, b := range batches {
		i := slices.IndexFunc(n.batch, func(o crdt.Batch) bool { return o.Actor == b.Actor && o.First == b.First })
		n.batch = slices.DeleteFunc(n.batch, func(o crdt.Batch) bool { return o.Actor == b.Actor && o.First >= b.First && o.Last() <= b.Last() })
		n.batch = slices.Insert(n.batch, i, b)
	}
}

func (n *node) size() (bytes, stubs int) {
	for _, b := range n.batch {
		bytes += len(b.Encode())
		for _, c := range b.Changes {
			if crdt.IsStub(c) {
				stubs++
			}
		}
	}
	return bytes, stubs
}

var web = api.Key{Kind: "Pod", Namespace: "default", Name: "web"}

// edited has a pod run with one argument after the other.
func edited(t testing.TB, c *cluster, times int) {
	for i := range times {
		c.write(1, Edit{Kind: EditApply, Key: web, Fields: api.Fields{
			"spec.containers.app.image": api.Str("one"), "spec.containers.app.args": fmt.Sprintf(`["%d"]`, i),
		}})
	}
}

// same insists that some machines hold the same, and give the same state from it.
func same(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes[1:] {
		if n.core.Digest() != nodes[0].core.Digest() || n.core.StateHash() != nodes[0].core.StateHash() {
			t.Errorf("%s and %s hold %v and %v, and their states are %v and %v", n.core.self.Name, nodes[0].core.self.Name,
				n.core.Digest(), nodes[0].core.Digest(), n.core.StateHash(), nodes[0].core.StateHash())
		}
	}
}

// TestCompaction: superseded results go on every disk, whoever comes later gets stubs, and the
// objects and their history are what they were, also after a start.
func TestCompaction(t *testing.T) {
	c := newCluster(t, 3)
	c.cutOff(3)
	edited(t, c, 12)
	before, _ := c.cores[0].size()
	c.retention = Retention{Budget: 1, Keep: time.Second, Every: 2 * time.Second}
	c.restart(1)
	c.restart(2)
	c.run(time.Second)
	state := c.cores[0].core.StateHash()
	c.run(6 * time.Second)
	after, stubs := c.cores[0].size()
	if _, there := c.cores[1].size(); stubs == 0 || there != stubs {
		t.Fatalf("%d entries are stubs where they were written, and %d at another machine", stubs, there)
	}
	t.Logf("%d bytes became %d; %d stubs", before, after, stubs)
	if c.cores[0].core.StateHash() != state {
		t.Error("compaction altered an object")
	}
	same(t, c.cores[0], c.cores[1])
	c.mend()
	c.run(10 * time.Second)
	if _, got := c.cores[2].size(); got < stubs {
		t.Errorf("a newcomer got %d stubs of %d", got, stubs)
	}
	same(t, c.cores[0], c.cores[1], c.cores[2])
	if seen, _ := c.cores[2].core.See(web); seen.Folded == nil || seen.Folded.Number() != 12 {
		t.Errorf("a newcomer sees %+v, want rev 12", seen.Object)
	}
	for i := range c.cores {
		c.restart(i + 1)
	}
	c.run(10 * time.Second)
	same(t, c.cores[0], c.cores[1], c.cores[2])
}

// TestCompactionInVain: what a look at the own log found nothing in is not looked at again until
// something happened.
func TestCompactionInVain(t *testing.T) {
	c := newCluster(t, 2)
	c.retention = Retention{Budget: 1, Keep: time.Second, Every: 2 * time.Second}
	c.restart(1)
	n := c.cores[0]
	edited(t, c, 3)
	c.run(20 * time.Second)
	before := n.reads
	c.run(20 * time.Second)
	if before == 0 || n.reads != before {
		t.Errorf("the log was read %d times before all was at rest, and %d times after", before, n.reads-before)
	}
	edited(t, c, 1)
	c.run(20 * time.Second)
	if n.reads == before {
		t.Error("the log was not read again though more was written")
	}
}

// TestStrippedBatchIsRefused: a relay that leaves content out is not believed, until the
// machine whose log it is has said that it counts for nothing.
func TestStrippedBatchIsRefused(t *testing.T) {
	c := newCluster(t, 2)
	c.cutOff(2)
	edited(t, c, 1)
	from, to := c.cores[0], c.cores[1]
	own := from.core.journal.actor
	had := to.core.journal.log.Head(own)
	for _, b := range from.batch {
		if b.Actor == own && b.First > had.Seq {
			b.Changes = slices.Clone(b.Changes)
			b.Changes[0] = crdt.StubOf(crdt.ChangeID(own, b.Changes[0]))
			to.core.Step(c.now, Received{From: from.core.self.ID, Message: Push{Batches: [][]byte{b.Encode()}}})
		}
	}
	r := to.core.Ready()
	to.core.Advance()
	asked := slices.ContainsFunc(r.Send, func(e Envelope) bool { o, ok := e.Message.(CompactedOffer); return ok && o.Reply })
	if to.core.journal.log.Head(own) != had || !asked {
		t.Errorf("the log went from %v to %v, and the peer asked why content is missing: %v", had, to.core.journal.log.Head(own), asked)
	}
	c.mend()
	c.run(5 * time.Second)
	if _, stubs := to.size(); stubs > 0 {
		t.Errorf("%d stubs were taken", stubs)
	}
	same(t, from, to)
}

// stated has a machine say that entries of its own log are compacted, true or not.
func (n *node) stated(seqs crdt.Seqs) CompactedLogs {
	birth, _ := n.core.journal.log.Birth(n.core.journal.actor)
	st := crdt.SignCompacted(crdt.Compacted{PublicKey: birth.PublicKey, Nonce: birth.Nonce, Seqs: seqs}, crdt.Ed25519Signer(n.key))
	return CompactedLogs{Statements: [][]byte{st.Encode()}}
}

// TestStatementAgainstAWinner: a machine takes back what counts. As long as all that have it
// let it count they agree, and as soon as one does not they agree again.
func TestStatementAgainstAWinner(t *testing.T) {
	c := newCluster(t, 3)
	c.cutOff(3)
	edited(t, c, 2)
	liar := c.cores[0]
	head := liar.core.journal.log.Head(liar.core.journal.actor).Seq
	state := c.cores[1].core.StateHash()
	c.cores[1].core.Step(c.now, Received{From: liar.core.self.ID, Message: liar.stated(crdt.Seqs{{From: 2, To: head}})})
	c.run(5 * time.Second)
	if c.cores[1].core.StateHash() != state {
		t.Error("a winner was dropped by the word of its machine, while all that hold it agree")
	}
	same(t, c.cores[0], c.cores[1])
	core := c.cores[1].core
	c.mend()
	c.run(45 * time.Second)
	if c.cores[1].core == core {
		t.Error("the log was not folded again")
	}
	same(t, c.cores[0], c.cores[1], c.cores[2])
}

// TestStatementBeforeWhatSupersedes: who hears that a result is compacted before it has what
// superseded that lets it count until then, and folds nothing again.
func TestStatementBeforeWhatSupersedes(t *testing.T) {
	c := newCluster(t, 2)
	edited(t, c, 1)
	for i := 0; c.status(1, "web").String("status.machine") != "m1"; i++ {
		if i > 20 {
			t.Fatal("the pod never came to the first machine")
		}
		c.write(1, Edit{Kind: EditDelete, Key: web})
		edited(t, c, 1)
	}
	late := c.cores[1]
	core, had := late.core, late.core.journal.log.Head(c.cores[0].core.journal.actor).Seq
	c.cutOff(2)
	edited(t, c, 3)
	first := c.cores[0]
	all := map[uint64]bool{}
	var seqs crdt.Seqs
	for _, b := range first.batch {
		for _, ch := range readChanges(b) {
			if b.Actor == first.core.journal.actor && ch.readable && first.core.journal.state.Superseded(ch.Change, ch.id) && !all[ch.At.Seq] {
				all[ch.At.Seq] = true
				seqs = seqs.With(ch.At.Seq, ch.At.Seq)
			}
		}
	}
	if len(seqs.Within(1, had)) == 0 {
		t.Fatal("nothing that the other machine holds was superseded")
	}
	c.run(10 * time.Second)
	state := core.StateHash()
	core.Step(c.now, Received{From: first.core.self.ID, Message: first.stated(seqs)})
	c.run(7 * time.Second)
	if left := core.compaction.logs[first.core.journal.actor].pending; core.StateHash() != state || len(left) == 0 {
		t.Errorf("a result that won here does not count any more; the state is the same: %v, and %v are pending", core.StateHash() == state, left)
	}
	c.mend()
	c.run(15 * time.Second)
	if late.core != core {
		t.Error("the log was folded again")
	}
	if left := core.compaction.logs[first.core.journal.actor].pending; len(left) > 0 {
		t.Errorf("%v still count", left)
	}
	same(t, first, late)
}

// TestCheckpointBeforeCompaction: a checkpoint counts what is compacted since, so a start
// does not go on from it.
func TestCheckpointBeforeCompaction(t *testing.T) {
	c := newCluster(t, 1)
	edited(t, c, 4)
	c.retention = Retention{Budget: 1, Keep: time.Second, Every: 2 * time.Second}
	c.restart(1)
	var before, after bytes.Buffer
	if err := c.cores[0].core.Checkpoint().Write(&before); err != nil {
		t.Fatal(err)
	}
	c.run(5 * time.Second)
	if _, stubs := c.cores[0].size(); stubs == 0 {
		t.Fatal("nothing was compacted")
	}
	live := c.cores[0].core
	if live.CheckpointDue() || !live.CheckpointUseful() {
		t.Errorf("a checkpoint is due %v at once, or of no use %v", live.CheckpointDue(), live.CheckpointUseful())
	}
	c.now = c.now.Add(2 * checkpointPause)
	live.Step(c.now, Tick{})
	if !live.CheckpointDue() {
		t.Error("no checkpoint is due long after compaction")
	}
	if err := live.Checkpoint().Write(&after); err != nil {
		t.Fatal(err)
	}
	for i, file := range [][]byte{before.Bytes(), after.Bytes()} {
		core := startFrom(t, c, file, nil)
		if core.Resumed() != (i == 1) || core.StateHash() != live.StateHash() {
			t.Errorf("checkpoint %d: resumed %v", i, core.Resumed())
		}
	}
}

// TestSweepPassesOverWhatIsMissing: an entry that a disk lost is looked for again later, not at
// once and for ever.
func TestSweepPassesOverWhatIsMissing(t *testing.T) {
	c := newCluster(t, 1)
	edited(t, c, 3)
	n := c.cores[0]
	actor := n.core.journal.actor
	gap := slices.IndexFunc(n.batch, func(b crdt.Batch) bool { return b.Actor == actor && b.First > 2 })
	lost := n.batch[gap]
	n.batch = slices.Delete(n.batch, gap, gap+1)
	n.core.Step(c.now, Received{From: n.core.self.ID, Message: n.stated(crdt.Seqs{{From: lost.First, To: lost.Last() + 2}})})
	for range 10 {
		c.turn(n)
		n.core.Step(c.now.Add(sweepEvery), Tick{})
		c.now = c.now.Add(sweepEvery)
	}
	if wait := n.core.compaction.sweep.Sub(c.now); wait < time.Second {
		t.Errorf("the sweep goes on in %v", wait)
	}
}

// crash ends the containers of a pod so many times, each time once it runs.
func crash(t testing.TB, c *cluster, key api.Key, times int) {
	t.Helper()
	n := c.cores[0]
	for i := 0; i < times; {
		seen, _ := n.core.See(key)
		if r := seen.Object.Results["container"]; r.Phase == lifecycle.PhaseDone {
			i++
			c.now = c.now.Add(time.Second)
			n.core.Step(c.now, Lost{Key: key, ID: seen.Object.ID, Step: "container", At: c.now, Code: api.StepFailed, Message: "it exited with 1"})
		}
		if c.turn(n) {
			continue
		}
		if n.wake.After(c.now) {
			c.now = n.wake
		}
		n.core.Step(c.now, Tick{})
	}
}

// BenchmarkCompaction measures what the log of a pod takes that was restarted 1,000 times.
func BenchmarkCompaction(b *testing.B) {
	for b.Loop() {
		c := newCluster(b, 1)
		edited(b, c, 1)
		empty, _ := c.cores[0].size()
		crash(b, c, web, 1000)
		before, _ := c.cores[0].size()
		batches := len(c.cores[0].batch)
		c.retention = Retention{Budget: 1, Keep: time.Second, Every: time.Second}
		c.restart(1)
		c.run(20 * time.Second)
		after, stubs := c.cores[0].size()
		b.ReportMetric(float64(empty), "B-at-first")
		b.ReportMetric(float64(before), "B-before")
		b.ReportMetric(float64(after), "B-after")
		b.ReportMetric(float64(stubs), "stubs")
		b.ReportMetric(float64(batches), "batches-before")
		b.ReportMetric(float64(len(c.cores[0].batch)), "batches-after")
	}
}
