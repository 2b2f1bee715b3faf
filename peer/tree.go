package peer

import (
	"maps"
	"slices"
	"time"

	"starling.dev/starling/crdt"
)

// The push trees, after Leitão, Pereira and Rodrigues, "Epidemic Broadcast Trees"
// (Plumtree, 2007): fresh entries go at once over eager links, and are announced over
// lazy ones. A link over which something came twice becomes lazy; one over which
// something was announced that did not come otherwise becomes eager.
//
// Each actor's entries have a tree of their own, which therefore takes the ways that are
// short from that actor. One tree for all is as deep again for all but one of them.

// treeLife is for how long an actor's tree is kept without an entry. The links change
// meanwhile, and the common tree is the better one then.
const treeLife = 10 * time.Minute

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

// tree is how the entries of an actor travel, seen from here.
type tree struct {
	// lazy are the links over which entries are only announced.
	lazy map[crdt.MachineID]bool
	lag  lag
	used time.Time
}

// forest holds the trees of actors that wrote of late. An actor's first entry goes over all
// links, so that what remains of them is the tree of the shortest ways. The common tree
// learns from all of them, and is what the tree of an actor begins with that was met later.
type forest struct {
	common tree
	own    map[crdt.ActorID]*tree
}

func newForest() *forest {
	return &forest{common: tree{lazy: map[crdt.MachineID]bool{}}, own: map[crdt.ActorID]*tree{}}
}

// of returns an actor's tree, to be used now.
func (f *forest) of(actor crdt.ActorID, now time.Time) *tree {
	t := f.own[actor]
	if t == nil || now.Sub(t.used) > treeLife {
		t = &tree{lazy: maps.Clone(f.common.lazy), lag: f.common.lag}
		f.own[actor] = t
	}
	t.used = now
	return t
}

// plant begins the tree of an actor whose first entry has come.
func (f *forest) plant(actor crdt.ActorID, now time.Time) {
	f.own[actor] = &tree{lazy: map[crdt.MachineID]bool{}, lag: f.common.lag, used: now}
}

// joined adds a link: eager in the common tree alone, since actors whose entries come
// already need no other way.
func (f *forest) joined(p crdt.MachineID) {
	for _, t := range f.own {
		t.lazy[p] = true
	}
}

// left forgets a link, and the trees that nobody used for long.
func (f *forest) left(p crdt.MachineID, now time.Time) {
	delete(f.common.lazy, p)
	for actor, t := range f.own {
		delete(t.lazy, p)
		if now.Sub(t.used) > treeLife {
			delete(f.own, actor)
		}
	}
}

// setLazy makes a link lazy for an actor that is known here: what isn't could be anybody's
// invention.
func (r *replicator) setLazy(actor crdt.ActorID, p crdt.MachineID) {
	if r.c.journal.log.Head(actor).Seq > 0 {
		r.trees.of(actor, r.c.now).lazy[p] = true
		r.trees.common.lazy[p] = true
	}
}

func (r *replicator) setEager(actor crdt.ActorID, p crdt.MachineID) {
	if r.c.journal.log.Head(actor).Seq > 0 {
		delete(r.trees.of(actor, r.c.now).lazy, p)
		delete(r.trees.common.lazy, p)
	}
}

// patience is how long an announced entry of an actor may take to come by itself.
func (r *replicator) patience(actor crdt.ActorID) time.Duration {
	if t := r.trees.own[actor]; t != nil {
		return t.lag.patience()
	}
	return r.trees.common.lag.patience()
}

// push sends the own batch out.
func (r *replicator) push(b crdt.Batch, head crdt.Head) {
	if b.First == 1 {
		r.trees.plant(b.Actor, r.c.now)
	}
	if len(r.c.members.connected()) > 0 {
		r.spread(crdt.MachineID{}, b.Actor, head, b.Encode())
	}
}

// spread passes a fresh batch on, which ends with the actor's head: whole over eager links,
// by name over lazy ones. All are told the same.
func (r *replicator) spread(from crdt.MachineID, actor crdt.ActorID, head crdt.Head, raw []byte) {
	var whole, name Message
	lazy := r.trees.of(actor, r.c.now).lazy
	for _, to := range r.c.members.connected() {
		switch {
		case to == from:
		case lazy[to]:
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

// arrived: an entry came over the link, fresh or again.
func (r *replicator) arrived(from crdt.MachineID, actor crdt.ActorID, fresh bool) {
	if fresh {
		r.setEager(actor, from)
		if g := r.missing[actor]; g != nil && r.c.journal.log.Head(actor).Seq >= g.seq {
			r.trees.of(actor, r.c.now).lag.observe(r.c.now.Sub(g.seen))
			r.trees.common.lag.observe(r.c.now.Sub(g.seen))
			delete(r.missing, actor)
		}
		return
	}
	if !r.trees.of(actor, r.c.now).lazy[from] {
		r.setLazy(actor, from)
		r.c.send(from, Prune{Actor: actor})
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
			g = &missing{seen: r.c.now, due: r.c.now.Add(r.patience(actor))}
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
		g.due = r.c.now.Add(r.patience(actor))
		r.setEager(actor, to)
		r.c.send(to, Graft{Ranges: []crdt.Range{{Actor: actor, From: have + 1, To: g.seq}}})
	}
}

func (r *replicator) receiveGraft(from crdt.MachineID, m Graft) {
	for _, g := range m.Ranges[:min(len(m.Ranges), maxRanges)] {
		r.setEager(g.Actor, from)
	}
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
