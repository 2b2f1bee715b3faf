package peer

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"starling.dev/starling/crdt"
)

// A peer that starts folds its log. So that this does not take as long as the log is
// old, the folded state is put beside the log now and then, and at a clean stop; a start
// then folds only what came later. A checkpoint is never trusted: its records carry
// checksums, the log is asked whether it goes on from the checkpoint's heads, and whatever
// is in doubt has the whole log folded.

// checkpointAfter is how many entries, beyond one for each object, a start may have to
// fold before a checkpoint is due.
const checkpointAfter = 10_000

// maxInMemory is how many bytes of objects at rest may be in no checkpoint before one is
// due, unless those that are in it are four times as many.
const maxInMemory = 8 << 20

// CheckpointDue reports whether it is worth while to save one.
func (c *Core) CheckpointDue() bool {
	j := c.journal
	return j.since >= checkpointAfter+len(c.engine.objects) || c.compaction.checkpointDue() || j.state.InMemory() > j.unsaved+max(maxInMemory, j.state.OnDisk()/4)
}

// CheckpointUseful reports whether a start from a checkpoint taken now would have less to
// fold than one from the last.
func (c *Core) CheckpointUseful() bool { return c.journal.since > 0 || c.compaction.unsaved }

// Checkpoint captures the state, to be written while the core goes on. It is to be called
// between turns, when all that was folded is durable.
func (c *Core) Checkpoint() *crdt.Checkpoint {
	j := c.journal
	standing := j.standing()
	compacted := c.compaction.within(j.log.Heads())
	extra := slices.Concat(putUint64(j.clock.Last()), putUint64(j.recent.oldest()), standing[:], compacted[:])
	c.compaction.unsaved, c.compaction.saved = false, c.now
	for _, id := range j.c.trust.Heads() {
		extra = append(extra, id[:]...)
	}
	j.since, j.unsaved = 0, j.state.InMemory()
	return crdt.Capture(j.log, j.state, extra, c.notes())
}

// Settle says that a checkpoint was saved, and where: objects at rest that did not change
// since it was taken are read from there from now on. The file is the core's then.
func (c *Core) Settle(saved *crdt.Checkpoint, file crdt.File) error {
	c.journal.unsaved = 0
	return c.journal.state.Settle(saved, file)
}

// Close lets go of the checkpoint that objects at rest are read from. It is the last call.
func (c *Core) Close() error { return c.journal.state.Close() }

// Resumed reports whether the core started from a checkpoint.
func (c *Core) Resumed() bool { return c.journal.resumed }

// Teach tells a verifier the keys of all actors that are known here.
func (c *Core) Teach(v *Verifier) {
	for actor := range c.journal.log.Heads() { // it learns each by itself, whatever the order
		if birth, ok := c.journal.log.Birth(actor); ok {
			v.Learn(crdt.Batch{Actor: actor, Birth: &birth})
		}
	}
}

// resume goes on from a checkpoint, if there is one and nothing is in doubt.
func (j *journal) resume(rec Recovery) (resumed bool, err error) {
	if rec.Checkpoint == nil || rec.Since == nil {
		return false, nil
	}
	file, err := rec.Checkpoint()
	if err != nil || file == nil {
		return false, nil //nolint:nilerr // without it the log is folded
	}
	err = readable(func() (err error) {
		if err = j.read(file); err == nil {
			j.before, err = rec.Since(j.log.Heads(), j.takeStored)
		}
		return err
	})
	if err != nil {
		return false, file.Close() // the log is folded, as above
	}
	return true, nil
}

// readable does what reads objects, and says which one can't be read from its checkpoint
// any more, if that put an end to it.
func readable(do func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *crdt.Unreadable:
			err = r
		default:
			panic(r) // none of ours
		}
	}()
	return do()
}

// read puts a checkpoint's contents into place.
func (j *journal) read(file crdt.File) error {
	var bad error
	extra, err := crdt.ReadCheckpoint(file, j.log, j.state, func(ref crdt.Ref, text string) {
		n, err := decodeNote(text)
		bad = cmp.Or(bad, err)
		j.noted = append(j.noted, noted{ref, n})
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	const id = len(crdt.ID{})
	if len(extra) < 16+2*id || len(extra)%id != 16 {
		return errors.New("the checkpoint holds no clock")
	}
	j.folded = j.log.Heads()
	if standing := j.standing(); !bytes.Equal(extra[16:][:id], standing[:]) {
		return errors.New("the checkpoint is older than a removal, or than what lifted one")
	}
	if compacted := j.c.compaction.within(j.log.Heads()); !bytes.Equal(extra[16+id:][:id], compacted[:]) {
		return errors.New("the checkpoint is older than what is compacted")
	}
	for head := range slices.Chunk(extra[16+2*id:], id) {
		if !j.c.trust.Has(crdt.ID(head)) { // the disk is an older copy: what was judged by them has to wait
			return errors.New("the checkpoint was made with records of authorisation that are not here")
		}
	}
	j.clock.Observe(getUint64(extra[:8]))
	j.recall = getUint64(extra[8:])
	for _, f := range j.log.Forks() {
		if j.log.Head(f.Actor).Seq >= f.Seq {
			return errors.New("the checkpoint is older than a proof against an actor")
		}
	}
	heads := j.log.Heads()
	for _, actor := range sortedActors(heads) {
		j.c.replica.moved(actor)
	}
	for i := range j.noted {
		if n := &j.noted[i]; n.recent {
			j.remember(n.ref)
		}
	}
	return nil
}

// remember notes the latest results of an object that came with a checkpoint.
func (j *journal) remember(ref crdt.Ref) {
	o, ok := j.state.Object(ref)
	if !ok {
		return
	}
	owners := j.c.cfg.Ownership.orTables()
	o.ResultsAfter(max(j.recall, j.recent.oldest()), func(step string, hlc uint64, r *crdt.Register) {
		j.recent.note(j.c, crdt.Change{
			Object: ref, Author: "loop:" + owners.Step(ref.Kind, step), HLC: hlc,
			Ops: []crdt.Op{{Kind: crdt.OpResult, Path: step, Register: r}},
		})
	})
}

// oldest is the clock reading that a result needs at least to be kept.
func (r *recent) oldest() uint64 {
	if len(r.list) < maxEvents {
		return 0
	}
	return r.list[len(r.list)-maxEvents].HLC
}

func sortRefs(refs map[crdt.Ref]bool) []crdt.Ref {
	list := make([]crdt.Ref, 0, len(refs))
	for ref := range refs {
		list = append(list, ref)
	}
	slices.SortFunc(list, compareRefs)
	return list
}
