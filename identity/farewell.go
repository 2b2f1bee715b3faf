package identity

import (
	"slices"

	"starling.dev/starling/crdt"
)

// maxFarewell bounds a farewell, in bytes.
const maxFarewell = 2 << 20

// Farewell proves to a machine that it was removed: the removal, and the records that it
// rests on, parents before children. It is nil unless the machine was removed. Of a past of more
// than two megabytes it has the newest records: the others the machine has, unless it was away
// for very long.
func (l *Log) Farewell(id crdt.MachineID) [][]byte {
	m, ok := l.Snapshot().ByID(id)
	if !ok || !m.Removed {
		return nil
	}
	removal := l.index[m.Removal]
	out, size := [][]byte{l.nodes[removal].rec.raw}, 0
	for i := removal - 1; i >= 0; i-- {
		if !l.nodes[removal].past.has(i) {
			continue
		}
		raw := l.nodes[i].rec.raw
		if size += len(raw); size > maxFarewell {
			break
		}
		out = append(out, raw)
	}
	slices.Reverse(out)
	return out
}
