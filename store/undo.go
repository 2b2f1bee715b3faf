package store

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// apply writes a plan: in one transaction if it fits, else in parts.
func (s *Store) apply(p *plan) error {
	if p.size() <= s.maxBytes() && len(p.changes) <= s.maxKeys() {
		return s.update(append(writesOf(p.changes), p.next.write()))
	}
	return s.applyParts(p)
}

// maxBytes and maxKeys bound one transaction. A fifth of what Badger allows is
// left to its own bookkeeping and to the record of the commit.
func (s *Store) maxBytes() int { return int(s.db.MaxBatchSize()) * 4 / 5 }
func (s *Store) maxKeys() int  { return int(s.db.MaxBatchCount()) * 4 / 5 }

func writesOf(changes []change) []write {
	writes := make([]write, len(changes), len(changes)+1)
	for i, c := range changes {
		writes[i] = c.write
	}
	return writes
}

// applyParts writes each part together with the record that undoes it. The last
// transaction, which carries the commit's number and deletes the undo records, is
// the point at which the commit has happened.
func (s *Store) applyParts(p *plan) error {
	end := []write{p.next.write()}
	for rest := p.changes; len(rest) > 0; {
		n := s.partLen(rest)
		undo := undoKey(len(end) - 1)
		writes := append(writesOf(rest[:n]), write{undo, sealPart(undo, 1, encodeUndo(rest[:n]))})
		if err := s.update(writes); err != nil {
			return err
		}
		end = append(end, write{key: undo})
		rest = rest[n:]
	}
	return s.update(end)
}

// partLen is how many of the changes, at least one, fit into one transaction with
// their undo record, which must stay below Badger's threshold for the value log.
func (s *Store) partLen(changes []change) int {
	size, undo := 0, 0
	for n, c := range changes {
		size += c.size() + c.undoLen()
		undo += c.undoLen()
		if n > 0 && (size > s.maxBytes() || undo > maxUndo || n == s.maxKeys()) {
			return n
		}
	}
	return len(changes)
}

// maxUndo is above the undo record of any single change and below the threshold.
const maxUndo = partSize + partSize/2

func (c change) undoLen() int { return 8 + len(c.key) + len(c.old) }

// encodeUndo lists the keys with their old values: key length, key, value length
// plus one (0: there was no value), value; lengths are 4 bytes each.
func encodeUndo(changes []change) []byte {
	var b []byte
	for _, c := range changes {
		b = binary.BigEndian.AppendUint32(b, uint32(len(c.key)))
		b = append(b, c.key...)
		if c.old == nil {
			b = binary.BigEndian.AppendUint32(b, 0)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(c.old)+1))
		b = append(b, c.old...)
	}
	return b
}

func decodeUndo(b []byte) ([]write, error) {
	var writes []write
	for len(b) > 0 {
		key, rest, ok := cutBytes(b, 0)
		if !ok {
			return nil, fmt.Errorf("%w: undo record", ErrDamaged)
		}
		old, rest, ok := cutBytes(rest, 1)
		if !ok {
			return nil, fmt.Errorf("%w: undo record", ErrDamaged)
		}
		writes = append(writes, write{key, old})
		b = rest
	}
	return writes, nil
}

// cutBytes takes a length, stored with bias added, and that many bytes. A length
// below the bias means that there is no value: nil.
func cutBytes(b []byte, bias int) (value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint32(b)) - bias
	b = b[4:]
	if n < 0 {
		return nil, b, true
	}
	if n > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

func (s *Store) update(writes []write) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	for _, w := range writes {
		var err error
		if w.value == nil {
			err = txn.Delete(w.key)
		} else {
			err = txn.Set(w.key, w.value)
		}
		if err != nil {
			return fmt.Errorf("collect transaction: %w", err)
		}
	}
	if err := txn.Commit(); err != nil {
		return err
	}
	return s.wal.sync()
}

// rollBack undoes a large commit that did not come to its end, last part first.
// A crash on the way is harmless: each part is undone in one transaction.
func (s *Store) rollBack() error {
	var undos []write
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixUndo}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			undos = append(undos, write{it.Item().KeyCopy(nil), value})
		}
		return nil
	})
	for i := len(undos) - 1; i >= 0 && err == nil; i-- {
		err = s.undo(undos[i])
	}
	if err != nil {
		return fmt.Errorf("roll back an unfinished commit: %w", err)
	}
	return nil
}

func (s *Store) undo(u write) error {
	_, body, err := openPart(u.key, u.value)
	if err != nil {
		return err
	}
	writes, err := decodeUndo(body)
	if err != nil {
		return err
	}
	return s.update(append(writes, write{key: u.key}))
}
