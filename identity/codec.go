package identity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// encoder writes the canonical encoding: fields in a fixed order, integers as the
// shortest uvarint, byte strings with their length in front. One value has exactly
// one encoding, so hashing and signing bytes is hashing and signing values.
type encoder struct{ buf []byte }

func (e *encoder) byte(b byte)    { e.buf = append(e.buf, b) }
func (e *encoder) uint(v uint64)  { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) fixed(b []byte) { e.buf = append(e.buf, b...) }
func (e *encoder) text(s string)  { e.bytes([]byte(s)) }

func (e *encoder) flag(set bool) {
	if set {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.fixed(b)
}

// decoder reads what encoder writes and refuses everything else. The first error
// sticks; after it every read returns a zero value, so callers check once, in end.
type decoder struct {
	rest []byte
	err  error
}

var errShort = errors.New("cut short")

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.rest = nil
}

func (d *decoder) byte() byte {
	b := d.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// take returns the next n bytes without copying; nil after a failure.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n > len(d.rest) {
		d.fail("%w", errShort)
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	switch {
	case d.err != nil || n == 0:
		d.fail("%w", errShort)
		return 0
	case n < 0 || n > 1 && d.rest[n-1] == 0:
		d.fail("an integer is not in its shortest form")
		return 0
	case v > limit:
		d.fail("%d is over the limit of %d", v, limit)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) count(limit int) int { return int(d.uint(uint64(limit))) }

func (d *decoder) fixed(into []byte) { copy(into, d.take(len(into))) }

func (d *decoder) flag() bool {
	b := d.byte()
	if b > 1 {
		d.fail("a flag is neither 0 nor 1")
	}
	return b == 1
}

// bytes returns a copy, so that a decoded value never aliases a network buffer.
func (d *decoder) bytes(limit int) []byte {
	return append([]byte(nil), d.take(d.count(limit))...)
}

func (d *decoder) text(limit int) string {
	b := d.take(d.count(limit))
	if !utf8.Valid(b) {
		d.fail("a text is not UTF-8")
		return ""
	}
	return string(b)
}

// end returns the first error, or one if bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	return d.err
}
