package peer

import (
	"slices"
	"time"

	"starling.dev/starling/crdt"
)

// syncEvery is the period of anti-entropy with one peer of the view.
const syncEvery = time.Second

// pullPatience is how long an answer to a Pull may take to go on before it counts as
// lost. A link that is dead is noticed elsewhere; asking a slow peer twice makes it
// slower.
const pullPatience = 5 * time.Second

// maxRanges bounds the ranges of one Pull or answer.
const maxRanges = 1024

// replicator spreads entries: the push tree (tree.go) at once, anti-entropy by heads
// each second. Both only bring batches to the journal; neither trusts the other.
type replicator struct {
	c        *Core
	nextSync time.Time
	// acked holds, per machine, the greatest own entry that it has on its disk.
	acked map[crdt.MachineID]uint64
	// synced: some member was found to hold nothing that is missing here.
	synced bool

	trees   *forest
	missing map[crdt.ActorID]*missing

	// Every change of a head gets a number. version is the latest, changed the number
	// of each actor's last change, equal the number at which a peer was found to hold
	// the same: what changed later is all that need be compared.
	version uint64
	changed map[crdt.ActorID]uint64
	equal   map[crdt.MachineID]uint64
	pulls   map[crdt.ActorID]pull
	// asking holds the Pull that a machine has not answered. Invariant: one at a time is
	// on its way to a machine, or each of several answers would ask on for the same
	// entries.
	asking map[crdt.MachineID]asking
}

// asking is a Pull that was sent: until when its answer may take, and how many entries
// were missing then.
type asking struct {
	due     time.Time
	missing uint64
}

// pull is what is wanted of an actor's log, and of which machine.
type pull struct {
	to uint64
	of crdt.MachineID
}

func newReplicator(c *Core) *replicator {
	return &replicator{
		c: c, acked: map[crdt.MachineID]uint64{}, trees: newForest(), missing: map[crdt.ActorID]*missing{},
		changed: map[crdt.ActorID]uint64{}, equal: map[crdt.MachineID]uint64{}, pulls: map[crdt.ActorID]pull{}, asking: map[crdt.MachineID]asking{},
	}
}

// moved notes that an actor's head is another.
func (r *replicator) moved(actor crdt.ActorID) {
	r.version++
	r.changed[actor] = r.version
}

// forget begins again with counting heads.
func (r *replicator) forget() {
	r.version = 0
	clear(r.changed)
}

// receivePush takes batches, passes fresh ones on, and acknowledges the rest of
// the turn once it is durable.
func (r *replicator) receivePush(from crdt.MachineID, m Push) {
	var origin crdt.Heads // of the sender's own actors: whoever wrote an entry wants to know who has it on disk
	gap, unvouched := false, false
	if a, asked := r.asking[from]; asked && !m.Fresh {
		a.due = r.c.now.Add(pullPatience) // a long answer is on its way
		r.asking[from] = a
	}
	for _, in := range m.entries() {
		b := in.batch
		if !r.c.compaction.vouched(b) { // it comes again once somebody told why content is missing
			unvouched = true
			continue
		}
		a, fresh := r.c.journal.accept(&in)
		gap = gap || a.Verdict == crdt.Gap || a.Verdict == crdt.Unknown
		if a.Head.Seq > 0 && r.c.journal.machine(b.Actor) == from {
			if origin == nil {
				origin = crdt.Heads{}
			}
			origin[b.Actor] = a.Head
		}
		if m.Fresh {
			if fresh && b.First == 1 {
				r.trees.plant(b.Actor, r.c.now)
			}
			r.arrived(from, b.Actor, fresh || a.Verdict == crdt.Gap || a.Verdict == crdt.Unknown)
			if fresh {
				r.spread(from, b.Actor, a.Head, in.raw)
			}
		}
	}
	if len(origin) > 0 {
		r.c.send(from, Ack{Heads: origin})
	}
	if unvouched {
		r.c.compaction.offer(from, true)
	}
	switch {
	case gap && m.Fresh:
		r.c.send(from, Vector{Heads: r.c.journal.log.Heads(), Reply: true, Full: true})
	case m.Last && !m.Fresh:
		r.answered(from)
	}
}

// joined begins with a member that has just become reachable.
func (r *replicator) joined(p crdt.MachineID) {
	r.trees.joined(p)
	r.greet(p)
}

// greet begins an exchange of what is missing.
func (r *replicator) greet(to crdt.MachineID) {
	r.c.send(to, r.c.Digest())
}

// gone forgets what was known of a link.
func (r *replicator) gone(p crdt.MachineID) {
	r.trees.left(p, r.c.now)
	delete(r.equal, p)
	delete(r.asking, p)
	delete(r.c.compaction.told, p)
	for actor, pl := range r.pulls {
		if pl.of == p {
			delete(r.pulls, actor)
		}
	}
}

// periodic compares with one random peer, about once a second.
func (r *replicator) periodic() {
	r.graft()
	if r.c.now.Before(r.nextSync) {
		return
	}
	jitter := time.Duration(r.c.rand()%200) * time.Millisecond
	r.nextSync = r.c.now.Add(syncEvery - 100*time.Millisecond + jitter)
	ids := r.c.members.connected()
	if len(ids) > 0 {
		r.greet(ids[r.c.rand()%uint64(len(ids))])
	}
}

func (r *replicator) nextWake() time.Time { return earliest(r.nextSync, r.graftWake()) }

func (r *replicator) receiveDigest(from crdt.MachineID, m Digest) {
	if m.Auth != r.c.trust.root {
		r.c.send(from, AuthOffer{Heads: r.c.trust.Heads(), Reply: true})
	}
	if m.Compacted != r.c.compaction.id() {
		r.c.compaction.offer(from, true)
	}
	if m.Heads != r.c.journal.log.Digest() {
		r.c.send(from, r.vector(from, true))
		return
	}
	if m.Compacted == r.c.compaction.id() {
		r.c.compaction.agree()
	}
	r.synced = true
	r.equal[from] = r.version
	if own := r.c.journal.actor; !own.IsZero() {
		r.noteAcked(from, crdt.Heads{own: r.c.journal.log.Head(own)})
	}
}

// vector lists the heads that changed since the peer was found equal; all of them if it
// never was.
func (r *replicator) vector(to crdt.MachineID, reply bool) Vector {
	since, known := r.equal[to]
	if !known {
		return Vector{Heads: r.c.journal.log.Heads(), Reply: reply, Full: true}
	}
	heads := crdt.Heads{}
	for actor, at := range r.changed {
		if at > since {
			heads[actor] = r.c.journal.log.Head(actor)
		}
	}
	// If this does not settle it, the next exchange compares everything.
	delete(r.equal, to)
	return Vector{Heads: heads, Reply: reply}
}

// receiveVector pulls what is missing here; the other does the same with the reply.
func (r *replicator) receiveVector(from crdt.MachineID, m Vector) {
	r.noteAcked(from, m.Heads)
	if m.Reply {
		v := r.vector(from, false)
		if m.Full {
			v = Vector{Heads: r.c.journal.log.Heads(), Full: true}
		}
		for actor := range m.Heads {
			if head := r.c.journal.log.Head(actor); head.Seq > 0 {
				v.Heads[actor] = head
			}
		}
		r.c.send(from, v)
	}
	r.prove(from, m.Heads)
	r.confront(from, m.Heads)
	if r.pull(from, m.Heads) == 0 && m.Full {
		r.synced = true
	}
}

// pull asks for what the peer has and this one lacks, unless it is asked already: then
// the end of its answer asks on.
func (r *replicator) pull(from crdt.MachineID, theirs crdt.Heads) int {
	lacking := 0
	for actor, head := range theirs { // each is noted by itself, whatever the order
		want := head.Seq
		if refusedFrom, refused := r.c.journal.log.Refused(actor); refused {
			want = min(want, refusedFrom-1)
		}
		if want <= r.c.journal.log.Head(actor).Seq {
			continue
		}
		lacking++
		if p, asked := r.pulls[actor]; asked && p.of != from && p.to >= want && r.c.now.Before(r.asking[p.of].due) {
			continue
		}
		r.pulls[actor] = pull{to: want, of: from}
	}
	if !r.c.now.Before(r.asking[from].due) {
		r.pullOn(from)
	}
	return lacking
}

// answered asks on at the end of an answer, unless it brought nothing: then the next
// exchange of heads is soon enough.
func (r *replicator) answered(from crdt.MachineID) {
	before, asked := r.asking[from]
	delete(r.asking, from)
	if _, missing := r.wanted(from); asked && missing < before.missing {
		r.pullOn(from)
	}
}

// pullOn asks for what is wanted of a machine and not here yet.
func (r *replicator) pullOn(from crdt.MachineID) {
	ranges, missing := r.wanted(from)
	if len(ranges) == 0 {
		return
	}
	r.asking[from] = asking{due: r.c.now.Add(pullPatience), missing: missing}
	r.c.send(from, Pull{Ranges: ranges[:min(len(ranges), maxRanges)]})
}

// wanted lists what is wanted of a machine and not here yet, actors never seen first, and
// counts the entries. What has arrived is forgotten.
func (r *replicator) wanted(from crdt.MachineID) (ranges []crdt.Range, entries uint64) {
	for _, actor := range sortedActors(r.pulls) {
		p := r.pulls[actor]
		if p.of != from {
			continue
		}
		have := r.c.journal.log.Head(actor).Seq
		if have >= p.to {
			delete(r.pulls, actor)
			continue
		}
		ranges = append(ranges, crdt.Range{Actor: actor, From: have + 1, To: p.to})
		entries += p.to - have
	}
	slices.SortStableFunc(ranges, func(a, b crdt.Range) int {
		return boolInt(a.From > 1) - boolInt(b.From > 1)
	})
	return ranges, entries
}

func (r *replicator) receivePull(from crdt.MachineID, m Pull) { r.serve(from, m.Ranges, false) }

func (r *replicator) serve(to crdt.MachineID, ranges []crdt.Range, fresh bool) {
	if len(ranges) > 0 {
		r.c.compaction.vouch(to, ranges)
		r.c.out.Serve = append(r.c.out.Serve, Serve{To: to, Ranges: ranges[:min(len(ranges), maxRanges)], Fresh: fresh})
	}
}

func (r *replicator) receiveAck(from crdt.MachineID, m Ack) { r.noteAcked(from, m.Heads) }

func (r *replicator) noteAcked(from crdt.MachineID, heads crdt.Heads) {
	own := r.c.journal.actor
	if h, ok := heads[own]; ok && !own.IsZero() && h.Seq > r.acked[from] {
		r.acked[from] = h.Seq
	}
}

// holder returns a machine, other than this one, that has the own entry seq on its
// disk.
func (r *replicator) holder(seq uint64) (crdt.MachineID, bool) {
	var found crdt.MachineID
	ok := false
	for id := range r.acked {
		if r.acked[id] >= seq && (!ok || compareMachines(id, found) < 0) {
			found, ok = id, true
		}
	}
	return found, ok
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
