package sim

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"time"

	"starling.dev/starling/crdt"
)

// traceKept is how many lines a violation carries.
const traceKept = 40

// trace hashes everything that happens, and tells it in words to whoever listens.
type trace struct {
	hash  hash.Hash64
	buf   [19]byte // of note; it would not stay on the stack
	out   io.Writer
	ring  []string
	begin int
}

func newTrace(out io.Writer) trace { return trace{hash: fnv.New64a(), out: out} }

// note takes an event into the hash.
func (t *trace) note(at time.Duration, kind byte, a, b int, n uint64) {
	binary.LittleEndian.PutUint64(t.buf[:], uint64(at))
	t.buf[8], t.buf[9], t.buf[10] = kind, byte(a), byte(b)
	binary.LittleEndian.PutUint64(t.buf[11:], n)
	t.hash.Write(t.buf[:]) // never fails
}

// state takes a hash of some machine's state into the hash.
func (t *trace) state(id crdt.ID) { t.hash.Write(id[:]) }

// sum is the hash of all that happened so far.
func (t *trace) sum() string { return fmt.Sprintf("%016x", t.hash.Sum64()) }

// say takes a line into the trace, and keeps it for a report.
func (w *World) say(format string, args ...any) {
	line := fmt.Sprintf("%11.6f ", w.now.Seconds()) + fmt.Sprintf(format, args...)
	w.trace.hash.Write([]byte(line))
	if len(w.trace.ring) < traceKept {
		w.trace.ring = append(w.trace.ring, line)
	} else {
		w.trace.ring[w.trace.begin] = line
		w.trace.begin = (w.trace.begin + 1) % traceKept
	}
	if w.trace.out != nil {
		fmt.Fprintln(w.trace.out, line)
	}
}

// detail tells what is too frequent to be kept, if somebody listens.
func (w *World) detail(format string, args ...any) {
	if w.trace.out != nil {
		fmt.Fprintf(w.trace.out, "%11.6f   %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

// last returns the lines that were said last.
func (t *trace) last() []string {
	return append(append([]string{}, t.ring[t.begin:]...), t.ring[:t.begin]...)
}
