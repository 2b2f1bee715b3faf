package peer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
)

// This file shrinks the log. A machine states which entries of its log are compacted
// (compact_own.go), everybody learns of it (compact_spread.go), and every disk drops their
// content, here. What is covered counts for nothing (see crdt.Compacted), and to begin with
// that makes no difference, since an honest machine covers only what was superseded. To
// be sure of it, a peer goes through the covered entries that it has folded already, and lets
// each count until it finds it superseded itself.

// compactPrefix begins the keys of what is compacted of an actor's log.
const compactPrefix = "compacted/"

const (
	// sweepEvery is the pause between two steps of the sweep, sweepBytes what is read for
	// one, sweepGap how many entries that stay may lie between those that it takes together.
	sweepEvery = 50 * time.Millisecond
	sweepBytes = 256 << 10
	sweepGap   = 8
	// forcePause is how long a core lives at least before it is built anew because a machine took
	// back what counts: one that does so again and again gets no more than that.
	forcePause = 30 * time.Second
	// sweepAgain is when entries are looked at again that still count here.
	sweepAgain = 5 * time.Second
	// checkpointPause is how long a checkpoint lasts at least though more was compacted since.
	checkpointPause = time.Hour
)

// compaction is what is compacted of all logs.
type compaction struct {
	c    *Core
	logs map[crdt.ActorID]*compactedLog
	// digest is of what is in effect here; nil when it has to be computed again.
	digest *crdt.ID
	sweep  time.Time // when to go on with it; zero if there is nothing to do
	own    ownLogs
	// collected are incarnations that were dropped here because their creation is covered, and
	// whose log that is in: what this machine wrote about them is covered next.
	collected map[crdt.ID]crdt.ActorID
	// succeeded are names that another incarnation had before, which may have ended.
	succeeded map[crdt.Ref]bool
	// held are statements that presume what is not known here yet.
	held []crdt.Compacted
	// told holds, for each link, what it was told to be covered.
	told map[crdt.MachineID]map[crdt.ActorID]uint64
	// unsaved: something came into effect since the last checkpoint, which was saved then.
	unsaved bool
	saved   time.Time
	begun   time.Time // of this life of the core
}

// compactedLog is what is compacted of one actor's log.
type compactedLog struct {
	said    []crdt.Compacted // all that add something
	covered crdt.Seqs        // what they cover
	// pending are the covered that were folded before this peer knew, and count still; waiting
	// those of them that the sweep did not find superseded.
	pending, waiting crdt.Seqs
	again            time.Time // when to look at the waiting again
	// stubs are the covered of which the disk holds no more.
	stubs crdt.Seqs
	// hashed is of what is in effect; nil when it has to be computed again.
	hashed *crdt.ID
	// forced: a peer with the same entries lets none of the pending count.
	forced bool
}

func newCompaction(c *Core) *compaction {
	return &compaction{
		c: c, saved: c.now, begun: c.now, logs: map[crdt.ActorID]*compactedLog{}, collected: map[crdt.ID]crdt.ActorID{},
		succeeded: map[crdt.Ref]bool{},
		told:      map[crdt.MachineID]map[crdt.ActorID]uint64{},
	}
}

// Covers reports whether an entry counts for nothing, as this peer folds its log.
func (c *Core) Covers(actor crdt.ActorID, seq uint64) bool {
	l := c.compaction.logs[actor]
	return l != nil && l.inEffect(seq)
}

// Stated reports whether an entry was stated to count for nothing, in effect here or not.
func (c *Core) Stated(actor crdt.ActorID, seq uint64) bool {
	l := c.compaction.logs[actor]
	return l != nil && l.covered.Has(seq)
}

func (l *compactedLog) inEffect(seq uint64) bool { return l.covered.Has(seq) && !l.pending.Has(seq) }

// learn takes a statement whose signature was checked, and reports whether it says anything
// new. It is durable with this turn.
func (k *compaction) learn(st crdt.Compacted) bool {
	actor := st.Actor()
	l := k.logs[actor]
	if l == nil {
		l = &compactedLog{}
	}
	fresh := st.Seqs.Minus(l.covered)
	if len(fresh) == 0 {
		return false
	}
	k.logs[actor] = l
	l.said = append(slices.DeleteFunc(l.said, func(old crdt.Compacted) bool { return len(old.Seqs.Minus(st.Seqs)) == 0 }), st)
	l.covered = l.covered.Union(fresh)
	l.pending = l.pending.Union(fresh.Within(1, k.c.journal.log.Head(actor).Seq))
	k.inEffect(l)
	k.save(actor)
	k.stir(k.c.now)
	return true
}

// inEffect notes that more is in effect.
func (k *compaction) inEffect(l *compactedLog) { l.hashed, k.digest, k.unsaved = nil, nil, true }

// save makes durable what is known of an actor's log.
func (k *compaction) save(actor crdt.ActorID) {
	k.c.put(compactPrefix+hex.EncodeToString(actor[:]), k.logs[actor].encode())
}

// stubs counts the entries of which the disk holds no more.
func (k *compaction) stubs() (n uint64) {
	for _, l := range k.logs { // a sum does not depend on the order
		n += l.stubs.Len()
	}
	return n
}

func (k *compaction) stir(at time.Time) { k.sweep = earliest(k.sweep, at) }

// arrived has the sweep look at entries that came with content.
func (k *compaction) arrived(actor crdt.ActorID, from, to uint64) {
	if l := k.logs[actor]; l != nil && len(l.covered.Within(from, to)) > 0 {
		k.stir(k.c.now)
	}
}

// id is the digest of what is in effect here: what with the entries decides the state.
func (k *compaction) id() crdt.ID {
	if k.digest == nil {
		id := k.fold(func(l *compactedLog, _ crdt.ActorID) crdt.ID { return l.hash() })
		k.digest = &id
	}
	return *k.digest
}

// within is the digest of what is in effect up to some heads.
func (k *compaction) within(heads crdt.Heads) crdt.ID {
	return k.fold(func(l *compactedLog, actor crdt.ActorID) crdt.ID {
		return hashSeqs(l.covered.Minus(l.pending).Within(1, heads[actor].Seq))
	})
}

// fold hashes what is not zero of some hashes of all logs; zero if that is none.
func (k *compaction) fold(of func(*compactedLog, crdt.ActorID) crdt.ID) (id crdt.ID) {
	h, some := sha256.New(), false
	for _, actor := range sortedActors(k.logs) {
		if one := of(k.logs[actor], actor); !one.IsZero() {
			h.Write(actor[:])
			h.Write(one[:])
			some = true
		}
	}
	if some {
		h.Sum(id[:0])
	}
	return id
}

// hash is of what is in effect of one log; zero for nothing.
func (l *compactedLog) hash() crdt.ID {
	if l.hashed == nil {
		id := hashSeqs(l.covered.Minus(l.pending))
		l.hashed = &id
	}
	return *l.hashed
}

func hashSeqs(s crdt.Seqs) (id crdt.ID) {
	if len(s) == 0 {
		return id
	}
	return sha256.Sum256(s.AppendTo(nil))
}

// encode is how a log's compaction stands on the disk: the statements, each behind its
// length, and the stubs.
func (l *compactedLog) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(l.said)))
	for _, st := range l.said {
		b = appendBytes(b, st.Encode())
	}
	return l.stubs.AppendTo(b)
}

func decodeCompactedLog(raw []byte) (*compactedLog, error) {
	l, r := &compactedLog{}, &reader{b: raw}
	for range r.count(maxRecords, 1) {
		st, err := crdt.DecodeCompacted(r.take(r.count(MaxFrame, 1)))
		if r.err != nil || err != nil {
			return nil, fmt.Errorf("%w", firstOf(r.err, err))
		}
		l.said, l.covered = append(l.said, st), l.covered.Union(st.Seqs)
	}
	if r.err != nil {
		return nil, r.err
	}
	var err error
	l.stubs, err = crdt.DecodeSeqs(r.b)
	return l, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// load reads what the disk holds, before the log is folded: then all of it is in effect.
func (k *compaction) load(local map[string][]byte) error {
	for _, key := range sortedKeys(local) {
		name, ok := strings.CutPrefix(key, compactPrefix)
		if !ok {
			if err := k.loadCollected(key, local[key]); err != nil {
				return err
			}
			continue
		}
		l, err := decodeCompactedLog(local[key])
		if err != nil {
			return fmt.Errorf("read %q: %w", key, err)
		}
		raw, err := hex.DecodeString(name)
		var actor crdt.ActorID
		if err != nil || copy(actor[:], raw) != len(actor) || len(l.said) == 0 || l.said[0].Actor() != actor {
			return fmt.Errorf("key %q is damaged", key)
		}
		k.logs[actor] = l
	}
	k.stir(k.c.now)
	return nil
}

// periodic goes on with the sweep, and with the own logs.
func (k *compaction) periodic() {
	k.ownPass()
	if k.sweep.IsZero() || k.c.now.Before(k.sweep) {
		return
	}
	k.sweep = time.Time{}
	for _, actor := range sortedActors(k.logs) {
		l := k.logs[actor]
		if !l.again.IsZero() && !k.c.now.Before(l.again) {
			l.waiting, l.again = nil, time.Time{}
		}
		if run, ok := l.next(k.c.journal.log.Head(actor).Seq); ok {
			k.step(actor, l, run)
			k.stir(k.c.now.Add(sweepEvery))
			return
		}
		if len(l.waiting) > 0 {
			k.stir(l.again)
		}
	}
}

func (k *compaction) nextWake() time.Time { return earliest(k.sweep, k.own.next) }

// next is what the sweep has to look at next: covered entries up to the head whose content
// may be on the disk.
func (l *compactedLog) next(head uint64) (run crdt.Span, ok bool) {
	for _, p := range l.covered.Within(1, head).Minus(l.stubs).Minus(l.waiting) {
		if ok && p.From > run.To+sweepGap {
			break
		}
		if !ok {
			run, ok = p, true
		}
		run.To = p.To
	}
	return run, ok
}

// swept is what one step found: entries of which the disk holds a stub now, those of them
// that had been pending, and those that still count.
type swept struct{ stubs, settled, waiting crdt.Seqs }

// step drops the content of some entries from the disk.
func (k *compaction) step(actor crdt.ActorID, l *compactedLog, run crdt.Span) {
	raws, _ := k.c.cfg.Stored(crdt.Range{Actor: actor, From: run.From, To: run.To}, sweepBytes)
	m, found, last := merger{}, swept{}, uint64(0)
	for _, raw := range raws {
		b, e := crdt.DecodeBatch(raw)
		if e != nil || b.Actor != actor || b.First <= last {
			break
		}
		altered := k.strip(l, &b, &found)
		m.add(b, altered)
		last = b.Last()
	}
	m.flush()
	k.c.out.Commit.Compacted = append(k.c.out.Commit.Compacted, m.out...)
	if last < run.From {
		last = run.To
	}
	l.stubs, l.waiting = l.stubs.Union(found.stubs), l.waiting.Union(found.waiting)
	// What could not be read is not there yet, or not any more.
	missed := l.covered.Within(run.From, last).Minus(l.stubs).Minus(l.waiting)
	found.waiting, l.waiting = found.waiting.Union(missed), l.waiting.Union(missed)
	if len(found.waiting) > 0 {
		l.again = k.c.now.Add(sweepAgain)
	}
	if len(found.settled) > 0 {
		l.pending = l.pending.Minus(found.settled)
		k.inEffect(l)
	}
	if len(found.stubs) > 0 {
		k.save(actor)
	}
	k.force(l)
}

// strip puts stubs in the place of what is covered in a batch, and reports whether it found
// any content. What is pending stays, unless it is superseded.
func (k *compaction) strip(l *compactedLog, b *crdt.Batch, found *swept) (altered bool) {
	var changes []decoded
	stripped := slices.Clone(b.Changes)
	for i, raw := range b.Changes {
		seq := b.First + uint64(i)
		switch {
		case !l.covered.Has(seq):
			continue
		case l.pending.Has(seq):
			if changes == nil {
				changes = readChanges(*b)
			}
			if !k.settles(changes[i]) {
				found.waiting.Push(seq)
				continue
			}
			found.settled.Push(seq)
		}
		found.stubs.Push(seq)
		if !crdt.IsStub(raw) {
			stripped[i], altered = crdt.StubOf(crdt.ChangeID(b.Actor, raw)), true
		}
	}
	b.Changes = stripped
	return altered
}

func (k *compaction) superseded(ch decoded) bool {
	return ch.readable && k.c.journal.state.Superseded(ch.Change, ch.id)
}

// force ends the wait for what would supersede the pending, if others with the same entries
// did so: then it never comes, and the log is folded anew without them.
func (k *compaction) force(l *compactedLog) {
	l.forced = l.forced && len(l.pending) > 0
	if l.forced && len(l.pending.Minus(l.waiting)) == 0 && k.c.now.Sub(k.begun) >= forcePause {
		k.c.out.Rebuild = true
	}
}

// checkpointDue reports whether the last checkpoint would be refused because of what came
// into effect since. The sweep has come to its end then, and not a short while ago.
func (k *compaction) checkpointDue() bool {
	return k.unsaved && k.c.now.Sub(k.saved) >= checkpointPause && (k.sweep.IsZero() || k.sweep.Sub(k.c.now) > sweepEvery)
}
