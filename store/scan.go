package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// scan reads all records with a prefix in order and returns their digest. What fn is
// given is only valid until it returns.
func scan(txn *badger.Txn, prefix []byte, fn func(record) error) (digest, error) {
	it := txn.NewIterator(iteratorOptions(prefix))
	defer it.Close()
	it.Rewind()
	return scanFrom(it, fn)
}

// iteratorOptions has no prefetching: it starts a goroutine for each value, and
// ours lie beside their keys.
func iteratorOptions(prefix []byte) badger.IteratorOptions {
	return badger.IteratorOptions{Prefix: prefix}
}

// errStop ends a scan early without being an error.
var errStop = errors.New("stop")

// scanFrom goes on to the iterator's end.
func scanFrom(it *badger.Iterator, fn func(record) error) (digest, error) {
	s := scanner{fn: fn}
	for ; it.Valid(); it.Next() {
		item := it.Item()
		err := item.Value(func(value []byte) error { return s.part(item.Key(), value) })
		if err != nil {
			return s.total, fmt.Errorf("read %x: %w", item.Key(), err)
		}
	}
	return s.total, s.flush()
}

// scanner groups parts that follow each other into records.
type scanner struct {
	fn      func(record) error
	total   digest
	pending record // of more than one part, or damaged
}

func (s *scanner) part(key, value []byte) error {
	base, n, ok := splitKey(key)
	if !ok {
		return fmt.Errorf("%w: unknown key", ErrDamaged)
	}
	if string(base) != string(s.pending.base) {
		if err := s.flush(); err != nil {
			return err
		}
		count, chunk, err := openPart(key, value)
		if err == nil && n == 0 && count == 1 {
			return s.single(base, chunk, value)
		}
		s.pending.base = append([]byte(nil), base...)
	}
	s.pending.add(append([]byte(nil), value...))
	return nil
}

// single hands on the usual record, of one part, without copying it.
func (s *scanner) single(base, chunk, value []byte) error {
	d := digest{1, uint64(partSum(value))}
	s.total = s.total.add(d)
	return s.fn(record{base: base, payload: chunk, parts: 1, digest: d})
}

func (s *scanner) flush() error {
	if s.pending.parts == 0 {
		return nil
	}
	r := s.pending
	s.pending = record{}
	r.finish()
	s.total = s.total.add(r.digest)
	return s.fn(r)
}
