package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// partSize bounds one stored value, so that it lies in the tree itself and never in
// Badger's value log: a failed sync of the value log is only logged there.
const partSize = 256 << 10

// partHeader is the checksum (4) and the number of parts (2; in part 0 only).
const partHeader = 6

// maxParts bounds one record to 1 GiB.
const maxParts = 4096

// write is one key to put, or, with a nil value, to delete.
type write struct {
	key, value []byte
}

// size estimates what the write takes in a transaction.
func (w write) size() int { return len(w.key) + len(w.value) + 32 }

// digest is a sum over a set of stored parts that does not depend on their
// order and from which parts can be taken away again.
type digest struct {
	count, sum uint64
}

func (d digest) add(o digest) digest { return digest{d.count + o.count, d.sum + o.sum} }
func (d digest) sub(o digest) digest { return digest{d.count - o.count, d.sum - o.sum} }

// split cuts a payload into parts, each with its checksum.
func split(base, payload []byte) ([]write, digest, error) {
	count := max(1, (len(payload)+partSize-1)/partSize)
	if count > maxParts {
		return nil, digest{}, fmt.Errorf("%w: a value of %d bytes, at most %d can be stored",
			ErrInvalid, len(payload), maxParts*partSize)
	}
	writes := make([]write, 0, count)
	var sum digest
	for i := range count {
		chunk := payload[i*partSize : min(len(payload), (i+1)*partSize)]
		header := 0
		if i == 0 {
			header = count
		}
		key := partKey(base, i)
		value := sealPart(key, header, chunk)
		writes = append(writes, write{key, value})
		sum = sum.add(digest{1, uint64(partSum(value))})
	}
	return writes, sum, nil
}

func partKey(base []byte, part int) []byte {
	k := make([]byte, 0, len(base)+partLen)
	k = append(k, base...)
	return binary.BigEndian.AppendUint16(k, uint16(part))
}

// splitKey takes the part's number off a stored key. ok is false for a key that this
// package never writes.
func splitKey(key []byte) (base []byte, part int, ok bool) {
	n := len(key) - partLen
	if n < 1 {
		return nil, 0, false
	}
	return key[:n], int(binary.BigEndian.Uint16(key[n:])), true
}

func sealPart(key []byte, count int, chunk []byte) []byte {
	v := make([]byte, partHeader, partHeader+len(chunk))
	binary.BigEndian.PutUint16(v[4:], uint16(count))
	v = append(v, chunk...)
	binary.BigEndian.PutUint32(v, checksum(key, v[4:]))
	return v
}

func openPart(key, value []byte) (count int, chunk []byte, err error) {
	if len(value) < partHeader {
		return 0, nil, fmt.Errorf("%w: %d bytes are too few", ErrDamaged, len(value))
	}
	if got := checksum(key, value[4:]); got != partSum(value) {
		return 0, nil, fmt.Errorf("%w: checksum %08x, stored %08x", ErrDamaged, got, partSum(value))
	}
	return int(binary.BigEndian.Uint16(value[4:])), value[partHeader:], nil
}

func partSum(value []byte) uint32 { return binary.BigEndian.Uint32(value) }

// checksum covers the key too: a sound value in a wrong place is damage as well.
func checksum(key, rest []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, rest)
}
