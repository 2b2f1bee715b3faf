package store

import (
	"encoding/binary"
	"fmt"
)

// meta is the record of the last commit, written in the same transaction. It says
// how much there must be to read.
type meta struct {
	mark            mark
	batches, locals digest
}

const metaLen = markLen + 4*8

func (m meta) write() write {
	b := make([]byte, 0, metaLen)
	b = append(b, m.mark.marshal()...)
	for _, d := range []digest{m.batches, m.locals} {
		b = binary.BigEndian.AppendUint64(b, d.count)
		b = binary.BigEndian.AppendUint64(b, d.sum)
	}
	return write{metaKey(), sealPart(metaKey(), 1, b)}
}

func parseMeta(value []byte) (meta, error) {
	_, b, err := openPart(metaKey(), value)
	if err != nil {
		return meta{}, err
	}
	var m meta
	var ok bool
	if m.mark, ok = parseMark(b); !ok || len(b) != metaLen {
		return meta{}, fmt.Errorf("%w: record of the last commit", ErrDamaged)
	}
	b = b[markLen:]
	for _, d := range []*digest{&m.batches, &m.locals} {
		d.count, d.sum = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
		b = b[16:]
	}
	return m, nil
}
