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

// collecting has what deployments make come and go, and collected early and often.
func collecting(w *weather) {
	w.roll = true
	w.partition, w.oneWay, w.withdraw, w.strip = 4*time.Second, false, 0, 0
	w.retention = peer.Retention{Every: 200 * time.Millisecond, Hold: 500 * time.Millisecond}
}

// endTooEarly has a machine say of the deletions that it writes, and not of the creations,
// that they count for nothing.
func endTooEarly(m *machine, c crdt.Commit) crdt.Commit {
	for _, b := range c.Batches {
		if b.Actor != c.HighWater.Actor {
			continue
		}
		for i, raw := range b.Changes {
			if ch, err := crdt.DecodeChange(raw); err == nil && ch.Ops[0].Kind == crdt.OpDelete && ch.Author == "loop:pinned" {
				m.later(time.Second, func() { m.say(b.Actor, b.First+uint64(i)) })
			}
		}
	}
	return c
}

// say has all others hear that one of the machine's entries counts for nothing.
func (m *machine) say(actor crdt.ActorID, seq uint64) {
	birth, ok := m.core.Birth(actor)
	if !ok {
		return
	}
	st := crdt.SignCompacted(crdt.Compacted{PublicKey: birth.PublicKey, Nonce: birth.Nonce, Seqs: crdt.Seqs{{From: seq, To: seq}}}, m.signer())
	for _, to := range m.w.members() {
		to.receive(m.id, peer.CompactedLogs{Statements: [][]byte{st.Encode()}})
	}
}

// presumeNothing has machines leave out of their statements what those presume.
func presumeNothing(from *machine, e peer.Envelope) []peer.Envelope {
	m, ok := e.Message.(peer.CompactedLogs)
	if !ok {
		return []peer.Envelope{e}
	}
	altered := peer.CompactedLogs{Settled: m.Settled}
	for _, raw := range m.Statements {
		if st, err := crdt.DecodeCompacted(raw); err == nil {
			if by := from.w.byID[crdt.MachineIDOf(st.PublicKey)]; by != nil {
				st.Presumes = nil
				raw = crdt.SignCompacted(st, by.signer()).Encode()
			}
		}
		altered.Statements = append(altered.Statements, raw)
	}
	return []peer.Envelope{{To: e.To, Message: altered}}
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
