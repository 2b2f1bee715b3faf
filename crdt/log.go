package crdt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Verdict is what a log makes of a batch.
type Verdict uint8

// The verdicts. Only New and Overlap bring entries.
const (
	New          Verdict = iota + 1 // follows the head
	Overlap                         // begins below the head, agrees with it, and goes on
	Duplicate                       // all of it is below the head
	Gap                             // entries before it are missing
	Unknown                         // not the actor's first batch, and the actor is unknown
	Equivocation                    // contradicts what the actor signed before
	Refused                         // from an actor that equivocated before this entry
)

// String names the verdict.
func (v Verdict) String() string {
	names := [...]string{"?", "new", "overlap", "duplicate", "gap", "unknown actor", "equivocation", "refused"}
	if int(v) < len(names) {
		return names[v]
	}
	return names[0]
}

// ErrBirth is wrapped when a batch's birth is missing, misplaced or not its actor's.
var ErrBirth = errors.New("the birth does not match the actor")

// Accepted is what came of a batch.
type Accepted struct {
	Verdict Verdict
	// From is the sequence number of Changes[0]; for a Gap the first entry that is
	// missing; for an Equivocation the entry from which the actor is refused.
	From uint64
	// Changes are the batch's entries that the log did not have.
	Changes [][]byte
	// Head is the actor's head afterwards.
	Head Head
}

// Fork proves that an actor signed two histories: Batch, validly signed, has the
// entry Seq with the hash Theirs, while the log held it with the hash Ours. Other is
// the batch of the log that held it, for those who keep both halves of the proof.
type Fork struct {
	Actor        ActorID
	Seq          uint64
	Ours, Theirs ID
	Batch, Other Batch
}

// LogConfig configures a [Log].
type LogConfig struct {
	// HashAt returns the hash of a stored entry. Required; called only when
	// two logs disagree.
	HashAt func(actor ActorID, seq uint64) (ID, bool)
}

func (c LogConfig) validate() error {
	if c.HashAt == nil {
		return errors.New("configure log: HashAt is required")
	}
	return nil
}

// Log tracks how far each actor's log is known. The entries themselves lie in the
// store. Invariant: a head's hash covers the whole log of its actor up to it, and
// no head lies at or after the actor's fork.
type Log struct {
	cfg    LogConfig
	heads  Heads
	births map[ActorID]Birth
	forks  map[ActorID]Fork
	sum    sum
}

// NewLog returns an empty log.
func NewLog(cfg LogConfig) (*Log, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Log{cfg: cfg, heads: Heads{}, births: map[ActorID]Birth{}, forks: map[ActorID]Fork{}}, nil
}

// Restore puts back what a store remembers of an actor, before any Accept.
func (l *Log) Restore(actor ActorID, birth Birth, head Head) error {
	if birth.ActorID() != actor {
		return fmt.Errorf("restore actor %s: %w", actor, ErrBirth)
	}
	l.births[actor] = birth
	l.setHead(actor, head)
	return nil
}

// Accept judges a batch whose signature was verified with [Batch.Verify], and
// moves the head over its new entries. An error means that the batch is nothing
// that an honest actor signs; it changes nothing.
func (l *Log) Accept(b Batch) (Accepted, error) {
	if len(b.Changes) == 0 || b.First == 0 {
		return Accepted{}, fmt.Errorf("accept batch of actor %s: it has no entries", b.Actor)
	}
	if (b.First == 1) != (b.Birth != nil) || b.Birth != nil && b.Birth.ActorID() != b.Actor {
		return Accepted{}, fmt.Errorf("accept batch of actor %s: %w", b.Actor, ErrBirth)
	}
	head := l.heads[b.Actor]
	_, known := l.births[b.Actor]
	switch fork, forked := l.forks[b.Actor]; {
	case forked && b.Last() >= fork.Seq && head.Seq+1 >= fork.Seq:
		return Accepted{Verdict: Refused, From: fork.Seq, Head: head}, nil
	case !known && b.First > 1:
		return Accepted{Verdict: Unknown, From: 1}, nil
	case b.First > head.Seq+1:
		return Accepted{Verdict: Gap, From: head.Seq + 1, Head: head}, nil
	}
	return l.chain(b, head), nil
}

// chain compares a batch that touches or overlaps the head with what is known, and
// takes what is new.
func (l *Log) chain(b Batch, head Head) Accepted {
	hashes := b.Hashes()
	if seq, ours, theirs := l.contradiction(b, hashes, head); seq > 0 {
		return l.convict(Fork{Actor: b.Actor, Seq: seq, Ours: ours, Theirs: theirs, Batch: b})
	}
	if b.Last() <= head.Seq {
		return Accepted{Verdict: Duplicate, From: head.Seq + 1, Head: head}
	}
	verdict := New
	if b.First <= head.Seq {
		verdict = Overlap
	}
	last := b.Last()
	if fork, forked := l.forks[b.Actor]; forked {
		last = min(last, fork.Seq-1)
	}
	if b.Birth != nil {
		l.births[b.Actor] = *b.Birth
	}
	next := Head{last, hashes[last-b.First]}
	l.setHead(b.Actor, next)
	return Accepted{verdict, head.Seq + 1, b.Changes[head.Seq+1-b.First : last+1-b.First], next}
}

// contradiction finds the first entry that the batch and the log both know, with
// different hashes; 0 if there is none. The hash chain makes one comparison, at the
// last common entry, decide for all before it.
func (l *Log) contradiction(b Batch, hashes []ID, head Head) (seq uint64, ours, theirs ID) {
	if head.Seq == 0 {
		return 0, ID{}, ID{}
	}
	common := min(head.Seq, b.Last())
	if h, ok := l.hashAt(b.Actor, common, head); !ok || h == hashOf(b, hashes, common) {
		return 0, ID{}, ID{}
	}
	for seq = max(b.First, 2) - 1; seq <= common; seq++ {
		theirs = hashOf(b, hashes, seq)
		if ours, ok := l.hashAt(b.Actor, seq, head); ok && ours != theirs {
			return seq, ours, theirs
		}
	}
	return 0, ID{}, ID{}
}

// Contradicts reports whether a batch says of an entry that is known here that it is another.
func (l *Log) Contradicts(b Batch) bool {
	head := l.heads[b.Actor]
	if len(b.Changes) == 0 || b.First == 0 || b.First > head.Seq {
		return false
	}
	seq, _, _ := l.contradiction(b, b.Hashes(), head)
	return seq > 0
}

func (l *Log) hashAt(actor ActorID, seq uint64, head Head) (ID, bool) {
	if seq == head.Seq {
		return head.Hash, true
	}
	return l.cfg.HashAt(actor, seq)
}

// hashOf returns the hash that the batch gives the entry seq, from First-1 to Last.
func hashOf(b Batch, hashes []ID, seq uint64) ID {
	if seq < b.First {
		return b.Prev
	}
	return hashes[seq-b.First]
}

// convict refuses the actor from the fork on. Everyone who learns of the fork ends
// with the same head, the last entry before it, whichever branch it had.
func (l *Log) convict(f Fork) Accepted {
	if known, ok := l.forks[f.Actor]; !ok || f.Seq < known.Seq {
		l.forks[f.Actor] = f
	}
	if l.heads[f.Actor].Seq >= f.Seq {
		before := Head{Seq: f.Seq - 1}
		if before.Seq > 0 {
			before.Hash, _ = l.cfg.HashAt(f.Actor, before.Seq)
		}
		l.setHead(f.Actor, before)
	}
	return Accepted{Verdict: Equivocation, From: f.Seq, Head: l.heads[f.Actor]}
}

// Convict applies a proof learnt from another peer or from the store. The caller
// has verified that the actor signed both halves. It reports whether entries that
// were accepted before are now refused, and their objects must be folded anew.
func (l *Log) Convict(f Fork) bool {
	before := l.heads[f.Actor].Seq
	l.convict(f)
	return l.heads[f.Actor].Seq < before
}

func (l *Log) setHead(actor ActorID, h Head) {
	if old, ok := l.heads[actor]; ok {
		l.sum.remove(headHash(actor, old))
		delete(l.heads, actor)
	}
	if h.Seq == 0 {
		return
	}
	l.heads[actor] = h
	l.sum.add(headHash(actor, h))
}

func headHash(actor ActorID, h Head) ID {
	b := binary.BigEndian.AppendUint64(append(make([]byte, 0, 56), actor[:]...), h.Seq)
	return sha256.Sum256(append(b, h.Hash[:]...))
}

// Head returns an actor's head; its Seq is 0 if nothing is known.
func (l *Log) Head(actor ActorID) Head { return l.heads[actor] }

// Heads returns a copy of all heads.
func (l *Log) Heads() Heads { return maps.Clone(l.heads) }

// Digest is the root hash of all heads: equal logs, equal digests.
func (l *Log) Digest() ID { return l.sum.id(len(l.heads)) }

// Birth returns how an actor's log began.
func (l *Log) Birth(actor ActorID) (Birth, bool) {
	b, ok := l.births[actor]
	return b, ok
}

// Key returns an actor's public key, to verify its batches with.
func (l *Log) Key(actor ActorID) (ed25519.PublicKey, bool) {
	b, ok := l.births[actor]
	return b.PublicKey, ok
}

// Forks returns the proofs against actors that equivocated, sorted by actor.
func (l *Log) Forks() []Fork {
	return slices.SortedFunc(maps.Values(l.forks), func(a, b Fork) int { return a.Actor.Compare(b.Actor) })
}

// Refused returns the entry from which an actor is refused.
func (l *Log) Refused(actor ActorID) (from uint64, refused bool) {
	f, ok := l.forks[actor]
	return f.Seq, ok
}

// Missing lists what the holder of theirs lacks: actors that it has never seen
// first, then by actor. Where both hold the same entry with different hashes the
// range begins with it, so that the fork comes to light.
func (l *Log) Missing(theirs Heads) []Range {
	var ranges []Range
	for actor, head := range l.heads {
		their := theirs[actor]
		if their == head || their.Seq > head.Seq {
			continue
		}
		from := their.Seq + 1
		if h, ok := l.hashAt(actor, their.Seq, head); their.Seq > 0 && ok && h != their.Hash {
			from = their.Seq
		}
		if from <= head.Seq {
			ranges = append(ranges, Range{actor, from, head.Seq})
		}
	}
	slices.SortFunc(ranges, func(a, b Range) int {
		if newA, newB := theirs[a.Actor].Seq == 0, theirs[b.Actor].Seq == 0; newA != newB {
			if newA {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.Actor[:], b.Actor[:])
	})
	return ranges
}

// Dominates reports whether h knows at least all that o knows: an answer from h is
// at least as new as the cursor o.
func (h Heads) Dominates(o Heads) bool {
	for actor, head := range o {
		if h[actor].Seq < head.Seq {
			return false
		}
	}
	return true
}
