package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// Recovery is what reading the whole store found.
type Recovery struct {
	// Verdict compares the database with the high-water file.
	Verdict Verdict
	// Own is the peer's own actor and head as of the last commit in the database;
	// zero if it never wrote.
	Own crdt.HighWater
	// Batches counts the batches handed out, Entries the changes in them.
	Batches, Entries int
	// Damaged lists what is there but can't be read.
	Damaged []Damage
	// Gaps are entries that must have been there: an actor's log has later ones.
	Gaps []crdt.Range
	// LostBatches and LostLocals tell that keys are missing (or that others came
	// back), seen by their number and the sum of their checksums, even where no
	// gap and no damage shows it.
	LostBatches, LostLocals bool
}

// Damage is one record that does not match its checksum, or does not decode. With
// neither actor nor key it is the store's own record of the last commit.
type Damage struct {
	Actor crdt.ActorID // of a batch
	First uint64       // its first entry
	Local string       // the key, for a value of the private key space
	Err   error
}

// Sound reports whether nothing at all is wrong.
func (r Recovery) Sound() bool {
	return r.Verdict.State == Clean && len(r.Damaged) == 0 && len(r.Gaps) == 0 &&
		!r.LostBatches && !r.LostLocals
}

// Recover reads the whole store, checks it, and hands every sound batch to fn in
// the order of (actor, first). It stops at the first error of fn. What it finds
// wrong it lists, and from then on takes the store as it was found: the next commit
// starts from there, so a loss is reported until then and not after.
//
// fn must not call the store; other calls wait until Recover returns.
func (s *Store) Recover(fn func(crdt.Batch) error) (Recovery, error) {
	return s.recover(fn, func(txn *badger.Txn, r *recovery) error {
		batches, err := scan(txn, []byte{prefixBatch}, r.batch)
		if err != nil {
			return err
		}
		r.LostBatches = batches != s.last.batches
		s.last.batches = batches
		return nil
	})
}

// recover reads batches as read does, and the private key space.
func (s *Store) recover(fn func(crdt.Batch) error, read func(*badger.Txn, *recovery) error) (Recovery, error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Recovery{}, ErrClosed
	}
	r := recovery{
		Recovery: Recovery{Verdict: s.verdict, Own: s.last.mark.own},
		fn:       fn,
		firsts:   map[crdt.ActorID]uint64{},
	}
	if s.metaErr != nil {
		r.Damaged = append(r.Damaged, Damage{Err: s.metaErr})
	}
	err := s.db.View(func(txn *badger.Txn) error {
		if err := read(txn, &r); err != nil {
			return err
		}
		locals, err := scan(txn, []byte{prefixLocal}, r.local)
		if err != nil {
			return err
		}
		r.LostLocals = locals != s.last.locals
		s.last.locals = locals
		s.firsts = r.firsts
		return nil
	})
	if err != nil {
		return r.Recovery, fmt.Errorf("recover: %w", err)
	}
	if r.bytes > trimAbove {
		if err := s.trim(); err != nil {
			s.broken = err
			return r.Recovery, fmt.Errorf("recover: %w", err)
		}
	}
	return r.Recovery, nil
}

// recovery follows the logs of the actors while they are read in order.
type recovery struct {
	Recovery
	fn    func(crdt.Batch) error
	actor crdt.ActorID
	next  uint64 // the entry that the actor's next batch must begin with
	// firsts is of all batches, damaged ones included.
	firsts map[crdt.ActorID]uint64
	bytes  int
}

func (r *recovery) batch(rec record) error {
	actor, first, ok := parseBatchKey(rec.base)
	if !ok {
		r.Damaged = append(r.Damaged, Damage{Err: fmt.Errorf("%w: unknown key %x", ErrDamaged, rec.base)})
		return nil
	}
	r.firsts[actor] = first // they come in order
	b, err := decodeBatch(rec)
	if err != nil {
		r.Damaged = append(r.Damaged, Damage{Actor: actor, First: first, Err: err})
		return nil
	}
	r.bytes += len(rec.payload)
	r.follow(actor, first)
	r.next = max(r.next, first+uint64(len(b.Changes)))
	r.Batches++
	r.Entries += len(b.Changes)
	return r.fn(b)
}

// follow notes a gap before the batch that begins with first.
func (r *recovery) follow(actor crdt.ActorID, first uint64) {
	if actor != r.actor {
		r.actor, r.next = actor, 1
	}
	if first > r.next {
		r.Gaps = append(r.Gaps, crdt.Range{Actor: actor, From: r.next, To: first - 1})
	}
}

func (r *recovery) local(rec record) error {
	if rec.err != nil {
		r.Damaged = append(r.Damaged, Damage{Local: parseLocalKey(rec.base), Err: rec.err})
	}
	return nil
}

func decodeBatch(rec record) (crdt.Batch, error) {
	if rec.err != nil {
		return crdt.Batch{}, rec.err
	}
	b, err := crdt.DecodeBatch(rec.payload)
	if err != nil {
		return crdt.Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	return b, nil
}
