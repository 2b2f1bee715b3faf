package store

import (
	"bytes"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// addCompacted plans that batches take the place of those from which they were made.
func (p *plan) addCompacted(txn *badger.Txn, batches []crdt.Batch) error {
	for _, b := range batches {
		data := b.Encode()
		if len(data) > crdt.MaxBatch || len(b.Changes) == 0 || len(b.Changes) > crdt.MaxEntries {
			return fmt.Errorf("%w: %d bytes and %d entries are too much for the batch %s/%d", ErrInvalid, len(data), len(b.Changes), b.Actor, b.First)
		}
		for i, old := range predecessors(txn, b) {
			payload := data
			if i > 0 {
				payload = nil
			}
			if err := p.replace(old.base, old, payload, &p.next.batches); err != nil {
				return fmt.Errorf("compact batch %s/%d: %w", b.Actor, b.First, err)
			}
		}
	}
	return nil
}

// predecessors reads the stored batches that b was made from. There are none if any is
// missing or damaged, or if b says anything else than they do: then nothing is replaced.
func predecessors(txn *badger.Txn, b crdt.Batch) (all []record) {
	var last crdt.Batch
	for next := b.First; next <= b.Last(); next = last.Last() + 1 {
		rec := readRecord(txn, batchKey(b.Actor, next))
		if rec.parts == 0 {
			return nil
		}
		var err error
		if last, err = decodeBatch(rec); err != nil || len(last.Changes) == 0 {
			return nil
		}
		all = append(all, rec)
	}
	// The hash stands for all entries before, too.
	if last.Head() != b.Head() || !bytes.Equal(last.Sig, b.Sig) {
		return nil
	}
	return all
}

// dropWithin plans the end of what is stored under entries in the middle of a batch that is
// written now. It stands behind a record that could not be read, and may be damaged as well.
func (s *Store) dropWithin(p *plan, txn *badger.Txn, b crdt.Batch) error {
	if p.firsts[b.Actor] < b.First || s.firsts != nil && b.First > s.firsts[b.Actor] {
		return nil // it is there already, or all that is there comes before
	}
	it := txn.NewIterator(badger.IteratorOptions{Prefix: batchKey(b.Actor, 0)[:1+actorLen]})
	defer it.Close()
	var within [][]byte
	for it.Seek(batchKey(b.Actor, b.First+1)); it.Valid(); it.Next() {
		base, part, _ := splitKey(it.Item().KeyCopy(nil))
		_, first, ok := parseBatchKey(base)
		if !ok || first > b.Last() {
			break
		}
		if part == 0 {
			within = append(within, base)
		}
	}
	for _, base := range within {
		if err := p.replace(base, readRecord(txn, base), nil, &p.next.batches); err != nil {
			return err
		}
	}
	return nil
}
