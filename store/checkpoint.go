package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// ErrBehind is wrapped when the log does not hold what a checkpoint was made of.
var ErrBehind = errors.New("the log is not what the checkpoint goes on from")

const (
	checkpointName = "checkpoint"
	// checkpointNew is one that is being written.
	checkpointNew = "checkpoint.new"
)

// SaveCheckpoint replaces the checkpoint by what write writes, about size bytes, and opens
// it. It is there as a whole or not at all. It may run beside commits.
func (s *Store) SaveCheckpoint(size int64, write func(io.Writer) error) (crdt.File, error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := s.roomFor(size); err != nil {
		return nil, err
	}
	path := filepath.Join(s.space.dir, checkpointNew)
	if err := streamSynced(path, write); err != nil {
		return nil, errors.Join(fmt.Errorf("save a checkpoint: %w", err), os.Remove(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint: %w", err)
	}
	err = errors.Join(os.Rename(path, filepath.Join(s.space.dir, checkpointName)), syncDir(s.space.dir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("save a checkpoint: %w", err), f.Close())
	}
	return f, nil
}

// roomFor keeps checkpoints from taking the room that commits need.
func (s *Store) roomFor(size int64) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	free, err := s.space.free()
	if err != nil {
		return err
	}
	if need := 2*size + normalRoom + s.tables(); free < need {
		return fmt.Errorf("%w: a checkpoint needs %d bytes, and %d are free", ErrDiskFull, need, free)
	}
	return nil
}

func streamSynced(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Checkpoint opens the checkpoint; nil if there is none, or if the database is not known
// to hold all that it ever held.
func (s *Store) Checkpoint() (crdt.File, error) {
	if s.verdict.State != Clean || s.metaErr != nil {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(s.space.dir, checkpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the checkpoint: %w", err)
	}
	return f, nil
}

// DropCheckpoint removes the checkpoint, so that the next start folds the whole log.
func (s *Store) DropCheckpoint() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := os.Remove(filepath.Join(s.space.dir, checkpointName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the checkpoint: %w", err)
	}
	return nil
}

// RecoverSince is Recover for who holds the log up to some heads already: it hands out the
// batches that reach beyond them. The hash of each head is compared with the log; an error
// that wraps ErrBehind says that it is another. What lies before is not looked at; Check
// does that.
func (s *Store) RecoverSince(heads crdt.Heads, fn func(crdt.Batch) error) (Recovery, error) {
	return s.recover(fn, func(txn *badger.Txn, r *recovery) error {
		left := len(heads)
		err := eachActor(txn, func(actor crdt.ActorID) error {
			head, known := heads[actor]
			if !known {
				return r.from(txn, actor, 0, 1)
			}
			left--
			first, err := firstOfBatch(txn, actor, head.Seq)
			if err != nil {
				return err
			}
			if err := holds(txn, actor, first, head); err != nil {
				return err
			}
			return r.from(txn, actor, head.Seq, first)
		})
		if err == nil && left > 0 {
			return fmt.Errorf("%w: %d of its actors are missing", ErrBehind, left)
		}
		return err
	})
}

// holds compares an entry with what is stored.
func holds(txn *badger.Txn, actor crdt.ActorID, first uint64, head crdt.Head) error {
	b, err := decodeBatch(readRecord(txn, batchKey(actor, first)))
	if err != nil || len(b.Changes) == 0 || b.First > head.Seq || b.Last() < head.Seq {
		return errors.Join(fmt.Errorf("%w: entry %d of actor %s is missing", ErrBehind, head.Seq, actor), err)
	}
	if b.Hashes()[head.Seq-b.First] != head.Hash {
		return fmt.Errorf("%w: entry %d of actor %s is another", ErrBehind, head.Seq, actor)
	}
	return nil
}

// from hands out an actor's batches from that which begins with first, leaving out those
// that hold nothing behind seq.
func (r *recovery) from(txn *badger.Txn, actor crdt.ActorID, seq, first uint64) error {
	it := txn.NewIterator(iteratorOptions(batchKey(actor, 0)[:1+actorLen]))
	defer it.Close()
	it.Seek(batchKey(actor, first))
	r.actor, r.next = actor, first
	fn := r.fn
	defer func() { r.fn = fn }()
	r.fn = func(b crdt.Batch) error {
		if b.Last() <= seq {
			return nil
		}
		return fn(b)
	}
	_, err := scanFrom(it, r.batch)
	return err
}

// eachActor visits the actors that have batches, in order, without reading these.
func eachActor(txn *badger.Txn, visit func(crdt.ActorID) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixBatch}})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		base, _, _ := splitKey(it.Item().Key())
		actor, _, ok := parseBatchKey(base)
		if !ok {
			return fmt.Errorf("%w: key %x", ErrDamaged, it.Item().Key())
		}
		if err := visit(actor); err != nil {
			return err
		}
		it.Seek(append(bytes.Clone(batchKey(actor, 0)[:1+actorLen]), bytes.Repeat([]byte{0xff}, 8+partLen)...))
		for it.Valid() && bytes.HasPrefix(it.Item().Key(), batchKey(actor, 0)[:1+actorLen]) {
			it.Next()
		}
	}
	return nil
}

// Check reads all that is stored, as Recover does, beside commits, and tells what it found.
func (s *Store) Check() (Recovery, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Recovery{}, ErrClosed
	}
	last, txn := s.last, s.db.NewTransaction(false)
	s.mu.Unlock()
	defer txn.Discard()
	r := recovery{
		Recovery: Recovery{Verdict: s.verdict, Own: last.mark.own},
		fn:       func(crdt.Batch) error { return nil }, firsts: map[crdt.ActorID]uint64{},
	}
	batches, err := scan(txn, []byte{prefixBatch}, r.batch)
	if err != nil {
		return r.Recovery, fmt.Errorf("check: %w", err)
	}
	locals, err := scan(txn, []byte{prefixLocal}, r.local)
	if err != nil {
		return r.Recovery, fmt.Errorf("check: %w", err)
	}
	r.LostBatches, r.LostLocals = batches != last.batches, locals != last.locals
	return r.Recovery, nil
}
