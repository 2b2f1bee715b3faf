package sim

import (
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// This file has machines misuse compaction, and looks at what is dropped.

// strip has a machine pass on what another wrote with some of the content left out.
func (w *World) strip() {
	r := w.random.compact
	m, to := pick(r, w.members()), pick(r, w.members())
	if m == to || m.core == nil || to.core == nil {
		return
	}
	heads := to.core.Heads()
	for _, actor := range m.disk.Actors() {
		next := heads[actor].Seq + 1
		for _, raw := range m.disk.ReadRange(crdt.Range{Actor: actor, From: next, To: next}, 1) {
			b, err := crdt.DecodeBatch(raw)
			if err != nil || b.First != next || b.Stubs() || to.core.Covers(actor, next) {
				continue
			}
			b.Changes = slices.Clone(b.Changes)
			b.Changes[0] = crdt.StubOf(crdt.ChangeID(actor, b.Changes[0]))
			w.sometimes("content is kept back")
			w.after(0, func() {
				to.receive(m.id, peer.Push{Batches: [][]byte{b.Encode()}})
				to.later(turnTime*4, func() { w.check.unvouched(to, b) })
			})
			return
		}
	}
}

// unvouched looks whether a stub was taken that no machine stated to be one.
func (c *checker) unvouched(m *machine, b crdt.Batch) {
	if m.core.Heads()[b.Actor].Seq < b.First || m.core.Covers(b.Actor, b.First) {
		c.w.sometimes("content that was kept back is refused")
		return
	}
	for _, raw := range m.disk.ReadRange(crdt.Range{Actor: b.Actor, From: b.First, To: b.First}, 1) {
		if have, err := crdt.DecodeBatch(raw); err == nil && crdt.IsStub(have.Changes[b.First-have.First]) {
			c.w.fail(2, "%s took entry %d of actor %s without its content, which nobody gave up", m.name, b.First, b.Actor)
		}
	}
}

// withdraw has a machine state that some of its latest entries count for nothing, though
// they do: others may not believe that at once, and have to agree in the end.
func (w *World) withdraw() {
	r := w.random.compact
	m := pick(r, w.members())
	if m.core == nil || m.disk.durable.high.Actor.IsZero() {
		return
	}
	high := m.disk.durable.high
	to := pick(r, w.members())
	var seqs crdt.Seqs
	for _, raw := range m.disk.ReadRange(crdt.Range{Actor: high.Actor, From: 1 + r.Uint64()%high.Head.Seq, To: high.Head.Seq}, 1) {
		b, err := crdt.DecodeBatch(raw)
		if err != nil {
			return
		}
		for i, change := range b.Changes {
			if ch, err := crdt.DecodeChange(change); err == nil && ch.Ops[0].Kind == crdt.OpResult {
				seqs.Push(b.First + uint64(i))
			}
		}
	}
	birth, ok := m.core.Birth(high.Actor)
	if len(seqs) == 0 || !ok {
		return
	}
	w.sometimes("a machine takes back what counts")
	w.say("%s takes back its entries %v", m.name, seqs)
	st := crdt.SignCompacted(crdt.Compacted{PublicKey: birth.PublicKey, Nonce: birth.Nonce, Seqs: seqs}, m.signer())
	w.after(r.about(w.weather.delay), func() { to.receive(m.id, peer.CompactedLogs{Statements: [][]byte{st.Encode()}}) })
}

// compacted looks at content that is about to be dropped from a disk: what people wrote never
// is, and what loops wrote only once it counts for nothing.
func (c *checker) compacted(m *machine, batches []crdt.Batch) {
	for _, b := range batches {
		for i, raw := range b.Changes {
			if !crdt.IsStub(raw) || c.hostile[b.Actor] {
				continue
			}
			c.w.sometimes("content is compacted")
			seq, s := b.First+uint64(i), c.changes[crdt.ID(raw[1:])]
			if !s.of.IsZero() {
				c.w.sometimes("a deletion is compacted")
				c.revived(m, s)
			}
			if len(s.author) > 0 && s.author[0] == 'u' || !m.core.Covers(b.Actor, seq) {
				c.w.fail(2, "%s drops entry %d of actor %s, which %s wrote about %s", m.name, seq, b.Actor, s.author, s.ref)
			}
		}
	}
}

// revived looks whether a deletion that counts for nothing has left alive what it ended, though
// nobody told the machine that the creation counts no more either.
func (c *checker) revived(m *machine, s said) {
	if s.of.IsZero() || c.hostile[s.actor] || m.core == nil || !m.core.Covers(s.actor, s.seq) {
		return
	}
	created := c.changes[s.of]
	for _, o := range m.core.Incarnations(api.Key(s.ref)) {
		if o.ID() == s.of && !o.Deleted() && !m.core.Stated(created.actor, created.seq) {
			c.w.fail(2, "the deletion of %s, incarnation %v, counts for nothing at %s, and its creation does", s.ref, s.of, m.name)
		}
	}
}

// arrived looks at stubs that came from others.
func (c *checker) arrived(batches []crdt.Batch) {
	for _, b := range batches {
		if b.Stubs() {
			c.w.sometimes("stubs are taken from another")
			if b.First == 1 {
				c.w.sometimes("a newcomer to a log gets stubs")
			}
		}
	}
}

// wrote looks whether what a person was told to be durable is still there, and not only its
// hash.
func (c *checker) wrote(m *machine, k *ack) {
	for _, raw := range m.disk.ReadRange(crdt.Range{Actor: k.actor, From: k.seq, To: k.seq}, 1) {
		b, err := crdt.DecodeBatch(raw)
		if err == nil && b.First <= k.seq && k.seq <= b.Last() && crdt.IsStub(b.Changes[k.seq-b.First]) {
			c.w.fail(2, "of the acknowledged change %v of %s the disk of %s holds no more than a stub", k.change, k.key, m.name)
		}
	}
}
