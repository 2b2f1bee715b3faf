package crdt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrMalformed is wrapped by every error of a decoder: the bytes are not the one
// canonical encoding of any value, or exceed a limit.
var ErrMalformed = errors.New("malformed encoding")

// appendString appends a length-prefixed string.
func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendIDs appends a count and the IDs.
func appendIDs(b []byte, ids []ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// reader consumes an encoding from its front. The first failure sticks and empties
// the input, so that callers check once, at the end. It reads from a string, so
// that all parts of a decoded value share one allocation.
type reader struct {
	rest string
	err  error
}

func (r *reader) fail(what, why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s %s: %w", what, why, ErrMalformed)
	}
	r.rest = ""
}

func (r *reader) take(n int, what string) string {
	if n > len(r.rest) {
		r.fail(what, "is cut short")
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte(what string) byte {
	s := r.take(1, what)
	if s == "" {
		return 0
	}
	return s[0]
}

// uint64 reads a fixed big-endian integer: shorter than a uvarint for values that
// use most of their bits.
func (r *reader) uint64(what string) uint64 {
	s := r.take(8, what)
	if s == "" {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(s))
}

// uvarint reads a base-128 integer and refuses all but its shortest form.
func (r *reader) uvarint(limit uint64, what string) uint64 {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		b := r.rest[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b >= 0x80 {
			continue
		}
		if b == 0 && i > 0 || v > limit {
			break
		}
		r.rest = r.rest[i+1:]
		return v
	}
	r.fail(what, "is not a canonical number within its limit")
	return 0
}

// bytes reads a length-prefixed run of arbitrary bytes.
func (r *reader) bytes(limit int, what string) string {
	return r.take(int(r.uvarint(uint64(limit), what)), what)
}

// text reads a length-prefixed string of valid UTF-8.
func (r *reader) text(limit int, what string) string {
	return r.utf8(r.bytes(limit, what), what)
}

func (r *reader) utf8(s, what string) string {
	if !utf8.ValidString(s) {
		r.fail(what, "is not UTF-8")
		return ""
	}
	return s
}

func (r *reader) id(what string) (id ID) {
	copy(id[:], r.take(len(id), what))
	return id
}

func (r *reader) machine(what string) (id MachineID) {
	copy(id[:], r.take(len(id), what))
	return id
}

func (r *reader) actor(what string) (id ActorID) {
	copy(id[:], r.take(len(id), what))
	return id
}

// sortedIDs reads a count and that many strictly ascending IDs.
func (r *reader) sortedIDs(limit int, what string) []ID {
	n := int(r.uvarint(uint64(limit), what))
	if n == 0 || n*len(ID{}) > len(r.rest) {
		if n > 0 {
			r.fail(what, "are cut short")
		}
		return nil
	}
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = r.id(what)
		if i > 0 && ids[i-1].Compare(ids[i]) >= 0 {
			r.fail(what, "are not sorted")
			return nil
		}
	}
	return ids
}

// end checks that all input was used and returns the first failure, if any.
func (r *reader) end(what string) error {
	if r.err == nil && r.rest != "" {
		r.fail(what, "has bytes after its end")
	}
	if r.err != nil {
		return fmt.Errorf("decode %s: %w", what, r.err)
	}
	return nil
}
