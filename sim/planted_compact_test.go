//go:build planted

package sim

import (
	"slices"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// compacting has logs compacted early and often.
func compacting(w *weather) {
	w.retention = peer.Retention{Budget: 1, Keep: 100 * time.Millisecond, Every: time.Second}
	w.withdraw, w.strip = 0, 0
}

// misjudge has a core see results as earlier attempts than they are when it asks whether
// they were superseded.
func misjudge(_ *machine, c *peer.Config, _ *peer.Recovery) {
	read := c.Stored
	c.Stored = func(r crdt.Range, maxBytes int) (altered [][]byte, err error) {
		raws, err := read(r, maxBytes)
		for _, raw := range raws {
			b, err := crdt.DecodeBatch(raw)
			if err != nil {
				return nil, err
			}
			for i, change := range b.Changes {
				if ch, err := crdt.DecodeChange(change); err == nil && ch.Ops[0].Kind == crdt.OpResult {
					ch.Ops[0].Register.Attempt = 0
					b.Changes[i] = ch.Encode()
				}
			}
			altered = append(altered, b.Encode())
		}
		return altered, err
	}
}

// dropContent has a disk keep no more than stubs of some entries that nobody gave up.
func dropContent(m *machine, c crdt.Commit) crdt.Commit {
	r := m.w.random.compact
	actors := m.disk.Actors()
	if len(actors) == 0 || !r.chance(0.05) {
		return c
	}
	actor := pick(r, actors)
	for _, raw := range m.disk.ReadRange(crdt.Range{Actor: actor, From: 1 + r.Uint64()%max(m.disk.Last(actor), 1), To: m.disk.Last(actor)}, 1) {
		b, err := crdt.DecodeBatch(raw)
		if err != nil {
			return c
		}
		for i := range b.Changes {
			b.Changes[i] = crdt.StubOf(crdt.ChangeID(actor, b.Changes[i]))
		}
		c.Compacted = append(slices.Clone(c.Compacted), b)
	}
	return c
}
