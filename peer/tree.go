package peer

import (
	"slices"
	"time"

	"starling.dev/starling/crdt"
)

// The push tree, after Leitão, Pereira and Rodrigues, "Epidemic Broadcast Trees"
// (Plumtree, 2007): fresh entries go at once over eager links, and are announced over
// lazy ones. A link over which something came twice becomes lazy; one over which
// something was announced that did not come otherwise becomes eager.

// graftLeast is how long an announced entry may take to come by itself, at least.
const graftLeast = 15 * time.Millisecond

// lag estimates how long after its announcement an entry comes by itself, smoothed
// as TCP smooths round trips (RFC 6298, section 2).
type lag struct{ mean, deviation time.Duration }

func (l *lag) observe(d time.Duration) {
	l.deviation += (max(d-l.mean, l.mean-d) - l.deviation) / 4
	l.mean += (d - l.mean) / 8
}

// patience is how long to wait before the entry is asked for.
func (l *lag) patience() time.Duration { return max(graftLeast, l.mean+l.deviation) }

// missing is an announced entry that has not come.
type missing struct {
	seq  uint64
	seen time.Time // when it was first announced
	due  time.Time
	from []crdt.MachineID // who announced it, in the order in which they did
}

// push sends the own batch out.
func (r *replicator) push(b crdt.Batch, head crdt.Head) {
	if len(r.c.members.connected()) > 0 {
		r.spread(crdt.MachineID{}, b.Actor, head, b.Encode())
	}
}

// spread passes a fresh batch on, which ends with the actor's head: whole over eager links,
// by name over lazy ones. All are told the same.
func (r *replicator) spread(from crdt.MachineID, actor crdt.ActorID, head crdt.Head, raw []byte) {
	var whole, name Message
	for _, to := range r.c.members.connected() {
		switch {
		case to == from:
		case r.lazy[to]:
			if name == nil {
				name = Have{Heads: crdt.Heads{actor: head}}
			}
			r.c.send(to, name) // what this peer says to have leaves only after the sync
		default:
			if whole == nil {
				whole = Push{Batches: [][]byte{raw}, Fresh: true}
			}
			if from.IsZero() { // so do own entries
				r.c.send(to, whole)
			} else {
				r.c.out.Relay = append(r.c.out.Relay, Envelope{to, whole})
			}
		}
	}
}

func (r *replicator) setLazy(p crdt.MachineID) { r.lazy[p] = true }

func (r *replicator) setEager(p crdt.MachineID) { delete(r.lazy, p) }

// arrived: an entry came over the link, fresh or again.
func (r *replicator) arrived(from crdt.MachineID, actor crdt.ActorID, fresh bool) {
	if fresh {
		r.setEager(from)
		if g := r.missing[actor]; g != nil && r.c.journal.log.Head(actor).Seq >= g.seq {
			r.lag.observe(r.c.now.Sub(g.seen))
			delete(r.missing, actor)
		}
		return
	}
	if !r.lazy[from] {
		r.setLazy(from)
		r.c.send(from, Prune{})
	}
}

// receiveHave notes what was announced and is not here yet.
func (r *replicator) receiveHave(from crdt.MachineID, m Have) {
	r.noteAcked(from, m.Heads)
	for _, actor := range sortedActors(m.Heads) {
		seq := m.Heads[actor].Seq
		if seq <= r.c.journal.log.Head(actor).Seq {
			continue
		}
		g := r.missing[actor]
		if g == nil {
			g = &missing{seen: r.c.now, due: r.c.now.Add(r.lag.patience())}
			r.missing[actor] = g
		}
		g.seq = max(g.seq, seq)
		if !slices.Contains(g.from, from) {
			g.from = append(g.from, from)
		}
	}
}

// graft asks for what was announced and did not come in time: each time another of
// those who announced it.
func (r *replicator) graft() {
	for _, actor := range sortedActors(r.missing) {
		g := r.missing[actor]
		have := r.c.journal.log.Head(actor).Seq
		if have >= g.seq || len(g.from) == 0 {
			delete(r.missing, actor)
			continue
		}
		if r.c.now.Before(g.due) {
			continue
		}
		to := g.from[0]
		g.from = g.from[1:]
		g.due = r.c.now.Add(r.lag.patience())
		r.setEager(to)
		r.c.send(to, Graft{Ranges: []crdt.Range{{Actor: actor, From: have + 1, To: g.seq}}})
	}
}

func (r *replicator) receiveGraft(from crdt.MachineID, m Graft) {
	r.setEager(from)
	r.serve(from, m.Ranges, true)
}

// graftWake is when the next announced entry is overdue.
func (r *replicator) graftWake() time.Time {
	var next time.Time
	for _, g := range r.missing {
		next = earliest(next, g.due)
	}
	return next
}

func sortedActors[V any](m map[crdt.ActorID]V) []crdt.ActorID {
	actors := make([]crdt.ActorID, 0, len(m))
	for a := range m {
		actors = append(actors, a)
	}
	slices.SortFunc(actors, crdt.ActorID.Compare)
	return actors
}
