package store

import (
	"encoding/binary"
	"fmt"
	"strings"

	"starling.dev/starling/crdt"
)

// The database's keys, by their first byte. What is stored under a base key may be
// cut into parts; the part's number (2 bytes) ends the key.
//
//	b actor(16) first(8) part   a batch
//	l key 0 part                a value of the private key space
//	m                           the record of the last commit
//	u part(4)                   an undo record of an unfinished commit
//
// Numbers are big endian, so that the order of keys is the order of (actor, first)
// and of local keys.
const (
	prefixBatch = 'b'
	prefixLocal = 'l'
	prefixMeta  = 'm'
	prefixUndo  = 'u'
)

const (
	actorLen     = len(crdt.ActorID{})
	batchKeyLen  = 1 + actorLen + 8
	partLen      = 2
	maxLocalName = 1024
)

func batchKey(actor crdt.ActorID, first uint64) []byte {
	k := make([]byte, 0, batchKeyLen+partLen)
	k = append(k, prefixBatch)
	k = append(k, actor[:]...)
	return binary.BigEndian.AppendUint64(k, first)
}

func parseBatchKey(base []byte) (actor crdt.ActorID, first uint64, ok bool) {
	if len(base) != batchKeyLen {
		return actor, 0, false
	}
	copy(actor[:], base[1:])
	return actor, binary.BigEndian.Uint64(base[1+actorLen:]), true
}

func localKey(name string) []byte {
	k := make([]byte, 0, len(name)+2+partLen)
	k = append(k, prefixLocal)
	k = append(k, name...)
	return append(k, 0)
}

func parseLocalKey(base []byte) string { return string(base[1 : len(base)-1]) }

// checkLocalName refuses the names that would break the order of keys.
func checkLocalName(name string) error {
	if name == "" || len(name) > maxLocalName || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: local key %q must have 1 to %d bytes, none of them zero",
			ErrInvalid, name, maxLocalName)
	}
	return nil
}

func metaKey() []byte { return []byte{prefixMeta} }

func undoKey(part int) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefixUndo}, uint32(part))
}
