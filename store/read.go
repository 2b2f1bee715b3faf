package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// record is what is stored under one base key.
type record struct {
	base    []byte
	payload []byte
	parts   int      // how many parts are there; 0: no record
	raw     [][]byte // the stored values of the parts
	digest  digest   // of the parts that are there and have a checksum
	err     error    // wraps ErrDamaged where the payload can't be trusted
}

// add takes the next part of the record, as it is stored.
func (r *record) add(value []byte) {
	r.parts++
	r.raw = append(r.raw, value)
	if len(value) >= partHeader {
		r.digest = r.digest.add(digest{1, uint64(partSum(value))})
	}
}

// finish puts the payload together.
func (r *record) finish() {
	want := 0
	for i, value := range r.raw {
		count, chunk, err := openPart(partKey(r.base, i), value)
		if err != nil {
			r.err = err
			return
		}
		if i == 0 {
			want = count
		}
		r.payload = appendChunk(r.payload, chunk, i)
	}
	if want != r.parts {
		r.err = fmt.Errorf("%w: %d of %d parts", ErrDamaged, r.parts, want)
	}
}

// appendChunk avoids a copy for the usual record of one part.
func appendChunk(payload, chunk []byte, part int) []byte {
	if part == 0 {
		return chunk[:len(chunk):len(chunk)]
	}
	return append(payload, chunk...)
}

// readRecord reads the record under a base key; parts is 0 if there is none. A record
// that does not match its checksums, or Badger's, has err set.
func readRecord(txn *badger.Txn, base []byte) record {
	r := record{base: base}
	for {
		key := partKey(base, r.parts)
		value, err := readValue(txn, key)
		if err != nil {
			r.parts++
			r.err = fmt.Errorf("%w: read: %w", ErrDamaged, err)
			return r
		}
		if value == nil {
			break
		}
		r.add(value)
		if count, chunk, err := openPart(key, value); err == nil && r.parts == 1 && count == 1 {
			r.payload = chunk // the usual case needs no second look
			return r
		}
	}
	if r.parts > 0 {
		r.finish()
	}
	return r
}

// readValue returns nil where there is no such key: no stored value is empty.
func readValue(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// Get returns the value under a key of the private key space, nil if there is none.
func (s *Store) Get(key string) ([]byte, error) {
	var value []byte
	err := s.view(func(txn *badger.Txn) error {
		r := readRecord(txn, localKey(key))
		value = r.payload
		return r.err
	})
	if err != nil {
		return nil, fmt.Errorf("get local key %q: %w", key, err)
	}
	return value, nil
}

// Local returns the keys of the private key space that have a prefix, in order,
// with their values. Damaged ones are left out and named in the error, which comes
// beside the others.
func (s *Store) Local(prefix string) ([]crdt.LocalWrite, error) {
	var out []crdt.LocalWrite
	var damaged []error
	err := s.view(func(txn *badger.Txn) error {
		_, err := scan(txn, append([]byte{prefixLocal}, prefix...), func(r record) error {
			if r.err != nil {
				damaged = append(damaged, fmt.Errorf("local key %q: %w", parseLocalKey(r.base), r.err))
				return nil
			}
			value := append([]byte{}, r.payload...) // an empty value is not nil
			out = append(out, crdt.LocalWrite{Key: parseLocalKey(r.base), Value: value})
			return nil
		})
		return err
	})
	return out, errors.Join(append(damaged, err)...)
}

// Batches returns an actor's batches in order, beginning with the one that holds
// entry from, until together they have maxBytes; at least one if there is any. It
// ends before a damaged batch or a gap: what follows could not be chained.
func (s *Store) Batches(actor crdt.ActorID, from uint64, maxBytes int) ([]crdt.Batch, error) {
	var out []crdt.Batch
	err := s.view(func(txn *badger.Txn) error {
		first, err := firstOfBatch(txn, actor, from)
		if err != nil {
			return err
		}
		out, err = collect(txn, actor, first, maxBytes)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("read log of %s from %d: %w", actor, from, err)
	}
	// The last batch before from may end before it.
	if len(out) > 0 && out[0].First+uint64(len(out[0].Changes)) <= from {
		out = out[1:]
	}
	return out, nil
}

// firstOfBatch finds the first entry of the last batch that begins at or before
// from; it is from itself where there is none.
func firstOfBatch(txn *badger.Txn, actor crdt.ActorID, from uint64) (uint64, error) {
	it := txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: batchKey(actor, 0)[:1+actorLen]})
	defer it.Close()
	it.Seek(partKey(batchKey(actor, from), 1<<16-1))
	if !it.Valid() {
		return from, nil
	}
	base, _, _ := splitKey(it.Item().Key())
	_, first, ok := parseBatchKey(base)
	if !ok {
		return 0, fmt.Errorf("%w: key %x", ErrDamaged, it.Item().Key())
	}
	return first, nil
}

func collect(txn *badger.Txn, actor crdt.ActorID, first uint64, maxBytes int) ([]crdt.Batch, error) {
	it := txn.NewIterator(iteratorOptions(batchKey(actor, 0)[:1+actorLen]))
	defer it.Close()
	it.Seek(batchKey(actor, first))
	var out []crdt.Batch
	size := 0
	_, err := scanFrom(it, func(r record) error {
		size += len(r.payload)
		if len(out) > 0 && size > maxBytes {
			return errStop
		}
		b, err := decodeBatch(r)
		if err != nil && len(out) == 0 {
			return err
		}
		if err != nil || len(out) > 0 && b.First != nextEntry(out) {
			return errStop
		}
		out = append(out, b)
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return out, err
}

func nextEntry(batches []crdt.Batch) uint64 {
	last := batches[len(batches)-1]
	return last.First + uint64(len(last.Changes))
}

func (s *Store) view(fn func(*badger.Txn) error) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return s.db.View(fn)
}
