package peer

import (
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/lifecycle"
)

// Seen is one object as this peer sees it now. All of it is immutable.
type Seen struct {
	Object *lifecycle.Object
	Folded *crdt.Object
	Graph  *lifecycle.Graph
	Eval   lifecycle.Evaluation
	// Invalid says why the merge of concurrent edits does not run; an older spec does.
	Invalid []api.Problem
}

// Self is the machine that the core runs on.
func (c *Core) Self() Machine { return c.self }

// See returns one object. Reading has no effect.
func (c *Core) See(key api.Key) (Seen, bool) {
	t, ok := c.engine.objects[crdt.Ref(key)]
	if !ok || t.snap() == nil {
		return Seen{}, false
	}
	s := c.see(t)
	return s, !s.Eval.Gone
}

func (c *Core) see(t *tracked) Seen {
	snap := t.snap()
	if t.kind.Derive != nil {
		snap = c.engine.withDerived(t.snap(), t.kind.Derive(t.snap(), &view{c: c}))
	}
	folded, _ := c.journal.state.Object(t.ref)
	s := Seen{Invalid: t.hand().invalid, Object: snap, Folded: folded, Graph: t.kind.Graph, Eval: t.kind.Graph.Evaluate(snap, c.engine.goal(t), c.engine.env(t, snap))}
	c.engine.stays(t, &s.Eval)
	return s
}

// List returns the objects of a kind, or of all kinds for "", sorted by key. Those
// that were deleted and taken down are left out.
func (c *Core) List(kind string) []Seen {
	var seen []Seen
	for _, t := range c.engine.objects {
		if t.life == 0 || (kind != "" && t.ref.Kind != kind) {
			continue
		}
		if s := c.see(t); !s.Eval.Gone {
			seen = append(seen, s)
		}
	}
	slices.SortFunc(seen, func(a, b Seen) int { return a.Object.Key.Compare(b.Object.Key) })
	return seen
}

// Incarnations returns every life that a name ever had, for its history.
func (c *Core) Incarnations(key api.Key) []*crdt.Object {
	return c.journal.state.Incarnations(crdt.Ref(key))
}

// Keys lists every name of every kind that ever was, sorted.
func (c *Core) Keys() []api.Key {
	var keys []api.Key
	for ref := range c.engine.objects {
		keys = append(keys, api.Key(ref))
	}
	slices.SortFunc(keys, api.Key.Compare)
	return keys
}

// MemberInfo is a machine as this peer sees it.
type MemberInfo struct {
	Machine
	Alive, Connected, Voter bool
	Since                   time.Time
	Reserved                lifecycle.Reservation
	Pods                    int
}

// Members lists the machines of the cluster by name.
func (c *Core) Members() []MemberInfo {
	var list []MemberInfo
	for _, m := range c.trust.list {
		r := c.members.get(m.ID, c.now)
		info := MemberInfo{
			Machine: m, Alive: c.members.alive(m.ID), Connected: r.connected || m.ID == c.self.ID, Since: r.since,
			Voter: c.voting.lists(m.ID), Reserved: c.engine.reserved(m.Name, crdt.Ref{}),
		}
		for t := range c.engine.placed[m.Name] {
			if t.life != 0 && !t.gone {
				info.Pods++
			}
		}
		list = append(list, info)
	}
	return list
}

// View says whose view an answer is, and what was out of its reach.
type View struct {
	Machine string
	Silent  []Silent // by name
}

// Silent is a machine that was not in reach since then.
type Silent struct {
	Machine string
	Since   time.Time
}

// View is this machine's now.
func (c *Core) View() View {
	v := View{Machine: c.self.Name}
	for _, m := range c.trust.list {
		if !c.members.alive(m.ID) {
			v.Silent = append(v.Silent, Silent{m.Name, c.members.get(m.ID, c.now).since})
		}
	}
	return v
}

// Trust is the authorisation log's present meaning.
func (c *Core) Trust() *identity.Snapshot { return c.trust.now }

// AuthLog is the authorisation log itself: to be read between turns, never kept.
func (c *Core) AuthLog() *identity.Log { return c.trust.Log }

// Refused tells from which entry on an actor is refused, because it signed two histories.
func (c *Core) Refused(actor crdt.ActorID) (from uint64, refused bool) {
	return c.journal.log.Refused(actor)
}

// Votes tells how many of how many voters, asked lately, find the machine silent.
func (c *Core) Votes(machine string) (silent, of int) {
	id, ok := c.idOf(machine)
	if !ok {
		return 0, len(c.voting.machines())
	}
	_, silent, of = c.silent(id)
	return silent, of
}

// ClockAhead tells how far a machine's clock runs ahead of this one's, if it is so far
// that what it writes is refused here.
func (c *Core) ClockAhead(machine string) (by time.Duration, ok bool) {
	id, known := c.idOf(machine)
	by, ok = c.journal.ahead[id]
	return by, known && ok
}

// Heard is when this peer last got a message of a machine; zero for never.
func (c *Core) Heard(machine string) time.Time {
	if id, ok := c.idOf(machine); ok && c.members.all[id] != nil {
		return c.members.all[id].heard
	}
	return time.Time{}
}

// Changed is when an object last changed, by the clocks of those who changed it: what is
// due since then has not begun, or not ended. It is zero for an object that is not there.
func (c *Core) Changed(key api.Key) (at time.Time) {
	t, ok := c.engine.objects[crdt.Ref(key)]
	if !ok || t.life == 0 {
		return at
	}
	if o, ok := c.journal.state.Object(t.ref); ok {
		for _, r := range o.Revs() {
			at = later(at, time.UnixMilli(crdt.Millis(r.HLC)))
		}
	}
	for _, r := range t.snap().Results {
		at = later(at, later(r.Started, r.Finished))
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// StateHash is the hash of everything that is replicated: equal heads give equal
// hashes, where the same is compacted.
func (c *Core) StateHash() crdt.ID { return c.journal.state.Hash() }

// Heads is the version vector of what this peer holds.
func (c *Core) Heads() crdt.Heads { return c.journal.log.Heads() }

// Figures are counts for tests and for people who look for faults.
func (c *Core) Figures() map[string]int64 {
	return map[string]int64{
		"objects": int64(len(c.engine.objects)), "actions": int64(len(c.engine.actions)),
		"effects": int64(len(c.engine.effects.byID)), "actors": int64(len(c.journal.log.Heads())),
		"connected": int64(len(c.members.connected())), "pending_writes": int64(len(c.writes.pending)),
		"entries": int64(c.journal.entries()), "waiting_wakes": int64(len(c.engine.wakes.h)),
		"compacted": int64(c.compaction.stubs()), "voters": int64(len(c.voting.machines())), "unseen": int64(len(c.engine.unseen)), "queued": int64(len(c.engine.queue)),
		"unreadable": int64(c.journal.unreadable), "collected": int64(len(c.compaction.collected)),
	}
}

func (j *journal) entries() (n uint64) {
	for _, h := range j.log.Heads() {
		n += h.Seq
	}
	return n
}

// NameOf is the name of a machine.
func (c *Core) NameOf(id crdt.MachineID) string { return c.nameOf(id) }

// IDOf is the ID of the machine with a name.
func (c *Core) IDOf(name string) (crdt.MachineID, bool) { return c.idOf(name) }

// CutOf is how much of a machine's logs is known here: what still counts after its
// removal.
func (c *Core) CutOf(id crdt.MachineID) crdt.Heads {
	cut := crdt.Heads{}
	for actor, head := range c.journal.log.Heads() {
		if pub, ok := c.journal.log.Key(actor); ok && crdt.MachineIDOf(pub) == id {
			cut[actor] = head
		}
	}
	return cut
}

// ByID finds a live object by its identity.
func (c *Core) ByID(id string) (*lifecycle.Object, bool) {
	if t := c.engine.byID(id); t != nil {
		return t.snap(), true
	}
	return nil, false
}

// Digest is anti-entropy's first word: the hashes of all that this peer holds.
func (c *Core) Digest() Digest {
	return Digest{Heads: c.journal.log.Digest(), Auth: c.trust.root, Compacted: c.compaction.id()}
}

// Holds reports whether one of the steps has made something for the object on this
// machine, or is about to.
func (c *Core) Holds(id string, steps ...string) bool {
	return slices.ContainsFunc(steps, func(step string) bool { return c.engine.effects.has(id, step) })
}
