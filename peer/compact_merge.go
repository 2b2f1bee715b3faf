package peer

import "starling.dev/starling/crdt"

// mergedBytes is the size up to which batches become one: its last signature speaks for
// all that come before.
const mergedBytes = 64 << 10

// merger makes one batch of several that follow each other.
type merger struct {
	out     []crdt.Batch
	current crdt.Batch
	size    int
	worth   bool // current is another than what is stored
}

func (m *merger) add(b crdt.Batch, altered bool) {
	size := 0
	for _, c := range b.Changes {
		size += len(c) + 3
	}
	entries := len(m.current.Changes)
	if entries == 0 || b.First != m.current.Last()+1 || entries+len(b.Changes) > crdt.MaxEntries || m.size+size > mergedBytes {
		m.flush()
		m.current, m.size, m.worth = b, size, altered
		return
	}
	m.current.Changes, m.current.Sig = append(m.current.Changes, b.Changes...), b.Sig
	m.size, m.worth = m.size+size, true
}

func (m *merger) flush() {
	if m.worth {
		m.out = append(m.out, m.current)
	}
	m.current, m.size, m.worth = crdt.Batch{}, 0, false
}
