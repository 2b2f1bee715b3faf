package peer

import (
	"encoding/binary"
	"slices"

	"starling.dev/starling/crdt"
)

// CompactedOffer tells, for each actor whose log is compacted, the hash of what of that is in
// effect at the sender; Reply asks for the other's.
type CompactedOffer struct {
	Sets  map[crdt.ActorID]crdt.ID
	Reply bool
}

// CompactedLogs carries statements of what is compacted.
type CompactedLogs struct {
	Statements [][]byte
	// Settled is the digest of the sender's heads if it has looked at all that the statements
	// cover, and has another part of it in effect than the receiver: whoever has the same
	// entries need not wait for others. If both wait for some, both let none count.
	Settled crdt.ID
}

func (CompactedOffer) kind() byte { return 13 }
func (CompactedLogs) kind() byte  { return 14 }

func appendSets(b []byte, sets map[crdt.ActorID]crdt.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(sets)))
	for _, actor := range sortedActors(sets) {
		id := sets[actor]
		b = append(append(b, actor[:]...), id[:]...)
	}
	return b
}

func (r *reader) sets() map[crdt.ActorID]crdt.ID {
	n := r.count(maxActors, 16+32)
	sets := make(map[crdt.ActorID]crdt.ID, n)
	for range n {
		var actor crdt.ActorID
		copy(actor[:], r.take(len(actor)))
		sets[actor] = r.id()
	}
	return sets
}

// spread passes new statements on to all but who sent them.
func (k *compaction) spread(from crdt.MachineID, said []crdt.Compacted) {
	if len(said) == 0 {
		return
	}
	for _, to := range k.c.members.connected() {
		if to != from {
			k.tell(to, said, crdt.ID{})
		}
	}
}

// tell sends statements, in messages of a bounded size.
func (k *compaction) tell(to crdt.MachineID, said []crdt.Compacted, settled crdt.ID) {
	m, size := CompactedLogs{Settled: settled}, 0
	for _, st := range said {
		raw := st.Encode()
		if size += len(raw); size > serveBytes && len(m.Statements) > 0 {
			k.c.send(to, m)
			m, size = CompactedLogs{Settled: settled}, len(raw)
		}
		m.Statements = append(m.Statements, raw)
	}
	if len(m.Statements) > 0 {
		k.c.send(to, m)
	}
}

// vouch tells a peer of the stubs in what it is about to be sent, once for each link. If the
// message is lost the peer asks.
func (k *compaction) vouch(to crdt.MachineID, ranges []crdt.Range) {
	var said []crdt.Compacted
	for _, r := range ranges {
		l := k.logs[r.Actor]
		if l == nil || len(l.stubs.Within(r.From, r.To)) == 0 || k.told[to][r.Actor] == l.covered.Len() {
			continue
		}
		if k.told[to] == nil {
			k.told[to] = map[crdt.ActorID]uint64{}
		}
		k.told[to][r.Actor] = l.covered.Len()
		said = append(said, l.said...)
	}
	k.tell(to, said, crdt.ID{})
}

// vouched reports whether a batch has no stub that nobody stated to be one: a relay could
// have kept the content. What contradicts the log needs no statement.
func (k *compaction) vouched(b crdt.Batch) bool {
	head, l := k.c.journal.log.Head(b.Actor).Seq, k.logs[b.Actor]
	for i, raw := range b.Changes {
		if seq := b.First + uint64(i); seq > head && crdt.IsStub(raw) && (l == nil || !l.covered.Has(seq)) {
			return k.c.journal.log.Contradicts(b)
		}
	}
	return true
}

// offer tells what is in effect here.
func (k *compaction) offer(to crdt.MachineID, reply bool) {
	sets := make(map[crdt.ActorID]crdt.ID, len(k.logs))
	for actor, l := range k.logs {
		sets[actor] = l.hash()
	}
	k.c.send(to, CompactedOffer{Sets: sets, Reply: reply})
}

func (k *compaction) receiveOffer(from crdt.MachineID, m CompactedOffer) {
	var settled, open []crdt.Compacted
	for _, actor := range sortedActors(k.logs) {
		l := k.logs[actor]
		switch {
		case m.Sets[actor] == l.hash():
		case len(l.pending.Minus(l.waiting)) == 0:
			settled = append(settled, l.said...)
		default:
			open = append(open, l.said...)
		}
	}
	k.tell(from, settled, k.c.journal.log.Digest())
	k.tell(from, open, crdt.ID{})
	if m.Reply {
		k.offer(from, false)
	}
}

// agree ends what another peer's view of the same entries had begun: the views came to be
// the same meanwhile. If a third one differs, it says so again.
func (k *compaction) agree() {
	for _, l := range k.logs {
		l.forced = false
	}
}

// receiveLogs takes statements whose signatures were checked.
func (k *compaction) receiveLogs(from crdt.MachineID, m CompactedLogs) {
	var said []crdt.Compacted
	for _, raw := range m.Statements {
		if st, err := crdt.DecodeCompacted(raw); err == nil {
			said = append(said, st)
		}
	}
	fresh := k.take(said)
	for _, st := range said {
		if l := k.logs[st.Actor()]; l != nil && m.Settled == k.c.journal.log.Digest() && len(l.pending) > 0 && !l.forced {
			l.forced, l.waiting = true, nil // what was waited for may have come
			k.stir(k.c.now)
		}
	}
	k.spread(from, fresh)
}

// maxHeld bounds the statements that wait for what they presume. Others come again.
const maxHeld = 1024

// take learns what presumes nothing beyond what is known here, or comes with it, holds the
// rest, and returns what was new.
func (k *compaction) take(said []crdt.Compacted) (fresh []crdt.Compacted) {
	all := slices.Concat(k.held, said)
	told := all
	for before := -1; before != len(told); {
		before = len(told)
		told = slices.DeleteFunc(slices.Clone(told), func(st crdt.Compacted) bool { return !k.founded(st, told) })
	}
	k.held = nil
	for _, st := range all {
		if k.founded(st, told) && k.learn(st) {
			fresh = append(fresh, st)
		}
	}
	for _, st := range all {
		known := func(o crdt.Compacted) bool { return o.Actor() == st.Actor() && len(st.Seqs.Minus(o.Seqs)) == 0 }
		if !k.founded(st, nil) && !slices.ContainsFunc(k.held, known) && len(k.held) < maxHeld {
			k.held = append(k.held, st)
		}
	}
	return fresh
}

// founded reports whether as much is covered as a statement presumes, by what is known here
// and by some more statements.
func (k *compaction) founded(st crdt.Compacted, more []crdt.Compacted) bool {
	for _, p := range st.Presumes {
		var covered crdt.Seqs
		if l := k.logs[p.Actor]; l != nil {
			covered = l.covered
		}
		for _, o := range more {
			if covered.Len() < p.Count && o.Actor() == p.Actor {
				covered = covered.Union(o.Seqs)
			}
		}
		if covered.Len() < p.Count {
			return false
		}
	}
	return true
}

// Birth returns how the log of an actor began.
func (c *Core) Birth(actor crdt.ActorID) (crdt.Birth, bool) { return c.journal.log.Birth(actor) }
