package identity

import (
	"slices"

	"starling.dev/starling/crdt"
)

// Limits of what waits for its parents. Peers send parents first, so that little
// waits; beyond the limits the oldest is dropped, and anti-entropy brings it again.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 8 << 20
)

// waiting holds verified records whose parents are missing, oldest first. It is
// searched by walking: it is nearly always empty, and never long.
type waiting struct {
	records []waiter
	bytes   int
}

type waiter struct {
	rec Record
	// missing is one parent that is not here.
	missing crdt.ID
}

func (w *waiting) put(rec Record, missing crdt.ID) {
	if slices.ContainsFunc(w.records, func(o waiter) bool { return o.rec.id == rec.id }) {
		return
	}
	w.records = append(w.records, waiter{rec, missing})
	w.bytes += len(rec.raw)
	for len(w.records) > maxWaiting || w.bytes > maxWaitingBytes {
		w.bytes -= len(w.records[0].rec.raw)
		w.records = slices.Delete(w.records, 0, 1)
	}
}

// take removes and returns the records that waited for a parent.
func (w *waiting) take(parent crdt.ID) []Record {
	var out []Record
	w.records = slices.DeleteFunc(w.records, func(o waiter) bool {
		if o.missing != parent {
			return false
		}
		out = append(out, o.rec)
		w.bytes -= len(o.rec.raw)
		return true
	})
	return out
}
