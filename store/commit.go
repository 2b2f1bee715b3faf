package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// Commit makes everything in c durable, atomically. The slices of c are not kept.
//
// [ErrDiskFull] and [ErrInvalid] are answered before anything is written: the store is
// as it was. After any other error it answers [ErrBroken] until it is reopened.
func (s *Store) Commit(c crdt.Commit) error {
	if s.still.Load() {
		if err := s.stir(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if c.Empty() {
		return nil
	}
	p, err := s.plan(c)
	if errors.Is(err, ErrInvalid) {
		return err
	}
	if err != nil {
		return s.fail(err)
	}
	if err := s.space.admit(p.size(), s.tables()); err != nil {
		if errors.Is(err, ErrDiskFull) {
			return err
		}
		return s.fail(err)
	}
	if err := s.persist(p); err != nil {
		return s.fail(err)
	}
	return nil
}

func (s *Store) usable() error {
	if s.closed {
		return ErrClosed
	}
	if s.broken != nil {
		return fmt.Errorf("%w: an earlier commit failed: %w", ErrBroken, s.broken)
	}
	return nil
}

func (s *Store) fail(err error) error {
	if isFull(err) {
		err = fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	s.broken = err
	return fmt.Errorf("%w: commit: %w", ErrBroken, err)
}

// persist keeps the order that the package's documentation promises.
func (s *Store) persist(p *plan) error {
	if err := s.highWater.settle(); err != nil {
		return err
	}
	if err := s.apply(p); err != nil {
		return fmt.Errorf("write database: %w", err)
	}
	s.wal.used += int64(p.size())
	if err := s.highWater.begin(p.next.mark); err != nil {
		return err
	}
	s.last = p.next
	if s.firsts != nil {
		for actor, first := range p.firsts {
			s.firsts[actor] = max(s.firsts[actor], first)
		}
	}
	return nil
}

// plan is a commit as writes to the database, with what was under their keys
// before.
type plan struct {
	changes []change
	next    meta
	firsts  map[crdt.ActorID]uint64 // of the batches that are new, the last of each actor
}

// change is a write and the value that it replaces (nil: none).
type change struct {
	write
	old []byte
}

func (p *plan) size() int {
	n := 0
	for _, c := range p.changes {
		n += c.size()
	}
	return n
}

func (s *Store) plan(c crdt.Commit) (*plan, error) {
	p := &plan{next: s.last, firsts: map[crdt.ActorID]uint64{}}
	p.next.mark.commit++
	if !c.HighWater.Actor.IsZero() {
		p.next.mark.own = c.HighWater
	}
	err := s.db.View(func(txn *badger.Txn) error {
		if err := s.addBatches(p, txn, c.Batches); err != nil {
			return err
		}
		if err := p.addCompacted(txn, c.Compacted); err != nil {
			return err
		}
		return p.addLocals(txn, c.Local)
	})
	return p, err
}

func (s *Store) addBatches(p *plan, txn *badger.Txn, batches []crdt.Batch) error {
	seen := make(map[string]bool, len(batches))
	for _, b := range batches {
		base := batchKey(b.Actor, b.First)
		if seen[string(base)] {
			continue
		}
		seen[string(base)] = true
		if err := p.addBatch(base, s.existing(txn, base, b), b); err != nil {
			return fmt.Errorf("batch %s/%d: %w", b.Actor, b.First, err)
		}
		if err := s.dropWithin(p, txn, b); err != nil {
			return fmt.Errorf("batch %s/%d: %w", b.Actor, b.First, err)
		}
	}
	return nil
}

// existing reads what is stored under a batch's key.
func (s *Store) existing(txn *badger.Txn, base []byte, b crdt.Batch) record {
	if s.firsts != nil && b.First > s.firsts[b.Actor] {
		return record{base: base}
	}
	return readRecord(txn, base)
}

// addBatch skips a batch that is there already, unless what is there can't be read:
// then a sound copy, fetched from another peer, mends it.
func (p *plan) addBatch(base []byte, old record, b crdt.Batch) error {
	if b.Actor.IsZero() || b.First == 0 || len(b.Changes) == 0 || (b.First == 1) != (b.Birth != nil) {
		return fmt.Errorf("%w: a batch needs an actor, changes, and, exactly at entry 1, a birth", ErrInvalid)
	}
	if old.parts > 0 && old.err == nil {
		return nil
	}
	data := b.Encode()
	if len(data) > crdt.MaxBatch {
		return fmt.Errorf("%w: %d bytes, a batch has at most %d", ErrInvalid, len(data), crdt.MaxBatch)
	}
	p.firsts[b.Actor] = max(p.firsts[b.Actor], b.First)
	return p.replace(base, old, data, &p.next.batches)
}

func (p *plan) addLocals(txn *badger.Txn, locals []crdt.LocalWrite) error {
	last := make(map[string]int, len(locals))
	for i, l := range locals {
		last[l.Key] = i
	}
	for i, l := range locals {
		if last[l.Key] != i {
			continue // written again later in the same commit
		}
		if err := p.addLocal(txn, l); err != nil {
			return fmt.Errorf("local key %q: %w", l.Key, err)
		}
	}
	return nil
}

func (p *plan) addLocal(txn *badger.Txn, l crdt.LocalWrite) error {
	if err := checkLocalName(l.Key); err != nil {
		return err
	}
	base := localKey(l.Key)
	return p.replace(base, readRecord(txn, base), l.Value, &p.next.locals)
}

// replace plans the record's new parts (none for a nil payload) and the deletion of
// those old parts that have no successor.
func (p *plan) replace(base []byte, old record, payload []byte, total *digest) error {
	*total = total.sub(old.digest)
	var writes []write
	if payload != nil {
		var sum digest
		var err error
		if writes, sum, err = split(base, payload); err != nil {
			return err
		}
		*total = total.add(sum)
	}
	for part := len(writes); part < old.parts; part++ {
		writes = append(writes, write{key: partKey(base, part)})
	}
	for i, w := range writes {
		c := change{write: w}
		if i < len(old.raw) {
			c.old = old.raw[i]
		}
		p.changes = append(p.changes, c)
	}
	return nil
}
