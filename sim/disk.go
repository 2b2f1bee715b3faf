package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"starling.dev/starling/crdt"
)

// errDiskFull is what a full disk says.
var errDiskFull = errors.New("no space left on the device")

// Disk is a simulated disk. A commit is first written, then synced: what was written
// and not synced may be there after a crash, or not, or torn, which the disk's
// checksums tell from what is whole. A commit is there as a whole or not at all.
type Disk struct {
	durable content
	// history holds what made the content, for restoring an older copy.
	history []happened
	pending *crdt.Commit
	full    bool
	// checkpoint is the last one that was saved, whatever became of the log since.
	checkpoint []byte
}

// happened is a commit, or the loss of an actor's log from one of its batches on.
type happened struct {
	commit crdt.Commit
	rotten *rotten
}

type rotten struct {
	actor crdt.ActorID
	batch int
}

// content is what can be read back.
type content struct {
	logs  map[crdt.ActorID]*diskLog
	local map[string][]byte
	high  crdt.HighWater
}

// diskLog is one actor's log: its batches in order, encoded as they are signed.
type diskLog struct {
	batches []diskBatch
	hashes  []crdt.ID // of entry i+1
}

type diskBatch struct {
	first, last uint64
	raw         []byte
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{durable: emptyContent()} }

func emptyContent() content {
	return content{logs: map[crdt.ActorID]*diskLog{}, local: map[string][]byte{}}
}

// Write hands a commit to the disk. It is not durable yet.
func (d *Disk) Write(c crdt.Commit) error {
	if d.full {
		return fmt.Errorf("write: %w", errDiskFull)
	}
	own := clone(c)
	d.pending = &own
	return nil
}

// Sync makes what was written durable.
func (d *Disk) Sync() error {
	if d.full {
		return fmt.Errorf("sync: %w", errDiskFull)
	}
	if d.pending == nil {
		return nil
	}
	if err := d.durable.apply(*d.pending); err != nil {
		return err
	}
	d.history = append(d.history, happened{commit: *d.pending})
	d.pending = nil
	return nil
}

// Commit writes and syncs.
func (d *Disk) Commit(c crdt.Commit) error {
	if err := d.Write(c); err != nil {
		return err
	}
	return d.Sync()
}

// Crash stops the machine. survives says whether a commit that was written and not
// synced reached the platter whole; one that was torn is found out and dropped.
func (d *Disk) Crash(survives bool) error {
	if survives && d.pending != nil {
		return d.Sync()
	}
	d.pending = nil
	return nil
}

// Wipe puts an empty disk into its place.
func (d *Disk) Wipe() { *d = *NewDisk() }

// Restore brings the disk back to what it was before its last n commits.
func (d *Disk) Restore(n int) error {
	kept, checkpoint := d.history[:max(len(d.history)-n, 0)], d.checkpoint
	d.Wipe()
	d.checkpoint = checkpoint // newer than the log: it has to be found out
	for _, h := range kept {
		if h.rotten != nil {
			d.durable.rot(*h.rotten)
		} else if err := d.durable.apply(h.commit); err != nil {
			return err
		}
	}
	d.history = slices.Clone(kept)
	return nil
}

// Rot loses the log of an actor from one of its batches on: what a checksum finds
// damaged can't be read, nor what stands behind it.
func (d *Disk) Rot(actor crdt.ActorID, batch int) {
	r := rotten{actor, batch}
	d.durable.rot(r)
	d.history = append(d.history, happened{rotten: &r})
}

func (c *content) rot(r rotten) {
	l := c.logs[r.actor]
	l.batches = l.batches[:r.batch]
	last := uint64(0)
	for _, b := range l.batches {
		last = max(last, b.last)
	}
	l.hashes = l.hashes[:last]
}

// Actors lists the actors whose entries the disk holds.
func (d *Disk) Actors() []crdt.ActorID {
	return slices.SortedFunc(maps.Keys(d.durable.logs), crdt.ActorID.Compare)
}

// clone copies a commit, whose slices belong to the caller.
func clone(c crdt.Commit) crdt.Commit {
	batches := cloneBatches(c.Batches)
	local := make([]crdt.LocalWrite, len(c.Local))
	for i, w := range c.Local {
		local[i] = crdt.LocalWrite{Key: w.Key, Value: bytes.Clone(w.Value)}
	}
	return crdt.Commit{Batches: batches, Compacted: cloneBatches(c.Compacted), Local: local, HighWater: c.HighWater}
}

func cloneBatches(list []crdt.Batch) []crdt.Batch {
	batches := make([]crdt.Batch, len(list))
	for i, b := range list {
		b.Changes = slices.Clone(b.Changes)
		for j := range b.Changes {
			b.Changes[j] = bytes.Clone(b.Changes[j])
		}
		batches[i] = b
	}
	return batches
}

func (c *content) apply(commit crdt.Commit) error {
	for _, b := range commit.Batches {
		if err := c.log(b.Actor).add(b); err != nil {
			return err
		}
	}
	for _, b := range commit.Compacted {
		if l := c.logs[b.Actor]; l != nil {
			l.compact(b)
		}
	}
	for _, w := range commit.Local {
		if w.Value == nil {
			delete(c.local, w.Key)
		} else {
			c.local[w.Key] = w.Value
		}
	}
	if !commit.HighWater.Actor.IsZero() {
		c.high = commit.HighWater
	}
	return nil
}

func (c *content) log(actor crdt.ActorID) *diskLog {
	l := c.logs[actor]
	if l == nil {
		l = &diskLog{}
		c.logs[actor] = l
	}
	return l
}

// add puts a batch into its place, unless it is there. It may overlap the end.
func (l *diskLog) add(b crdt.Batch) error {
	if b.First > uint64(len(l.hashes))+1 {
		return fmt.Errorf("write batch %d of actor %s: the entries before it are missing", b.First, b.Actor)
	}
	i, found := slices.BinarySearchFunc(l.batches, b.First, func(s diskBatch, first uint64) int { return cmp.Compare(s.first, first) })
	if found {
		return nil
	}
	l.batches = slices.Insert(l.batches, i, diskBatch{b.First, b.Last(), b.Encode()})
	for i, h := range b.Hashes() {
		if b.First+uint64(i) == uint64(len(l.hashes))+1 {
			l.hashes = append(l.hashes, h)
		}
	}
	return nil
}

// compact puts a batch in the place of those that it was made from. Invariant: the hash of
// no entry is another then.
func (l *diskLog) compact(b crdt.Batch) {
	i, found := slices.BinarySearchFunc(l.batches, b.First, func(s diskBatch, first uint64) int { return cmp.Compare(s.first, first) })
	if !found {
		return
	}
	j := i
	for next := b.First; next <= b.Last(); j++ {
		if j == len(l.batches) || l.batches[j].first != next {
			return
		}
		next = l.batches[j].last + 1
	}
	last, err := crdt.DecodeBatch(l.batches[j-1].raw)
	if err != nil || last.Head() != b.Head() || !bytes.Equal(last.Sig, b.Sig) {
		return
	}
	l.batches = slices.Replace(l.batches, i, j, diskBatch{b.First, b.Last(), b.Encode()})
}

// Batches calls yield for every batch, by actor and first entry, and returns the own
// head of the last commit that named one.
func (d *Disk) Batches(yield func(crdt.Batch) error) (crdt.HighWater, error) {
	for _, actor := range slices.SortedFunc(maps.Keys(d.durable.logs), crdt.ActorID.Compare) {
		for _, stored := range d.durable.logs[actor].batches {
			b, err := crdt.DecodeBatch(stored.raw)
			if err != nil {
				return d.durable.high, err
			}
			if err := yield(b); err != nil {
				return d.durable.high, err
			}
		}
	}
	return d.durable.high, nil
}

// Checkpoint opens the checkpoint.
func (d *Disk) Checkpoint() (crdt.File, error) {
	if d.checkpoint == nil {
		return nil, nil
	}
	return openFile(d.checkpoint), nil
}

// file is one that was written.
type file struct{ *bytes.Reader }

func openFile(content []byte) file { return file{bytes.NewReader(content)} }

// Close lets go of nothing.
func (file) Close() error { return nil }

// errBehind is what a log says to a checkpoint that it does not go on from.
var errBehind = errors.New("the log does not hold what the checkpoint was made of")

// Since calls yield for every batch that reaches beyond the heads.
func (d *Disk) Since(heads crdt.Heads, yield func(crdt.Batch) error) (crdt.HighWater, error) {
	for actor, head := range heads { // any of them is reason enough
		if have, _ := d.Hash(actor, head.Seq); have != head.Hash {
			return d.durable.high, errBehind
		}
	}
	return d.Batches(func(b crdt.Batch) error {
		if b.Last() <= heads[b.Actor].Seq {
			return nil
		}
		return yield(b)
	})
}

// Local returns a copy of the private key space.
func (d *Disk) Local() map[string][]byte { return maps.Clone(d.durable.local) }

// ReadRange returns encoded batches of the range from its start: about maxBytes, and at
// least one if there is any.
func (d *Disk) ReadRange(r crdt.Range, maxBytes int) [][]byte {
	l := d.durable.logs[r.Actor]
	if l == nil {
		return nil
	}
	var out [][]byte
	size := 0
	for _, b := range l.batches {
		if b.last < r.From || b.first > r.To {
			continue
		}
		if size += len(b.raw); size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, b.raw)
	}
	return out
}

// Stored is ReadRange as a core asks for it.
func (d *Disk) Stored(r crdt.Range, maxBytes int) ([][]byte, error) {
	return d.ReadRange(r, maxBytes), nil
}

// Hash returns the hash of a durable entry.
func (d *Disk) Hash(actor crdt.ActorID, seq uint64) (crdt.ID, bool) {
	l := d.durable.logs[actor]
	if l == nil || seq == 0 || seq > uint64(len(l.hashes)) {
		return crdt.ID{}, false
	}
	return l.hashes[seq-1], true
}

// Last is the sequence number of the actor's last durable entry.
func (d *Disk) Last(actor crdt.ActorID) uint64 {
	if l := d.durable.logs[actor]; l != nil {
		return uint64(len(l.hashes))
	}
	return 0
}
