package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// checker holds what was seen of the whole cluster, which no peer can see, and looks
// after each turn whether the invariants hold.
type checker struct {
	w *World
	// entries holds the hash of each entry that was ever durable or sent.
	entries map[crdt.ActorID][]crdt.ID
	changes map[crdt.ID]said
	// states holds the state that equal heads must give, and who had it first.
	states map[atLevel]seenState
	// rolls holds the voters of each epoch, as they were first seen.
	rolls map[uint64][]crdt.MachineID
	// fences holds the last fencing number of each leased pod, by identity.
	fences map[string]fenceSeen
	acks   []*ack
	// hostile are the actors that sign two histories.
	hostile map[crdt.ActorID]bool
	// damages holds when a disk last lost what it held.
	damages map[*machine]time.Duration
	// looked holds each machine's copy of an object as it last was.
	looked  map[lookedAt][]*crdt.Object
	written map[crdt.Ref]int // entries by object
	total   int
	spent   map[spender]spending // by each loop in each life of a store
}

// said is a change, once it was seen.
type said struct {
	author string
	ref    crdt.Ref
	actor  crdt.ActorID
	seq    uint64
	// of is the incarnation that it deletes; zero for what deletes none.
	of crdt.ID
}

type seenState struct {
	hash crdt.ID
	by   string
}

// ack is a change that somebody was told is durable.
type ack struct {
	key     api.Key
	change  crdt.ID
	actor   crdt.ActorID
	seq     uint64
	holders []*machine // whose disks hold it still, as far as is known
}

func newChecker(w *World) *checker {
	return &checker{
		w: w, entries: map[crdt.ActorID][]crdt.ID{}, changes: map[crdt.ID]said{},
		states: map[atLevel]seenState{}, rolls: map[uint64][]crdt.MachineID{}, hostile: map[crdt.ActorID]bool{}, fences: map[string]fenceSeen{}, damages: map[*machine]time.Duration{}, looked: map[lookedAt][]*crdt.Object{}, written: map[crdt.Ref]int{}, spent: map[spender]spending{},
	}
}

// turned looks at a peer after a turn that is durable, before its effects leave.
func (c *checker) turned(m *machine, r *peer.Ready) {
	commit := r.Commit
	if commit.Empty() {
		return
	}
	c.voters(m)
	touched := map[crdt.Ref]bool{}
	for _, b := range commit.Batches {
		c.batch(m, b, touched)
	}
	for ref := range touched { // the checks of one object depend on no other
		c.fields(m, ref)
	}
	c.arrived(commit.Batches)
	c.compacted(m, commit.Compacted)
	if r.Rebuild {
		return // what it holds is no longer what its log says
	}
	hash := m.core.StateHash()
	c.w.trace.note(c.w.now, 't', m.index, 0, uint64(len(commit.Batches)))
	c.w.trace.state(hash)
	c.equal(m, hash)
	if c.w.random.check.chance(c.rate(0.002)) {
		c.refold(m, hash)
	}
}

// rate is how likely something is after a turn that costs as much as there are entries: less
// when there are many, so that a run takes about as long as it has turns.
func (c *checker) rate(p float64) float64 { return min(p, 300*p/float64(c.total+1)) }

// survived notes what reached a disk although its peer did not live to see it.
func (c *checker) survived(m *machine, commit crdt.Commit) {
	for _, b := range commit.Batches {
		c.batch(m, b, map[crdt.Ref]bool{})
	}
}

// atLevel are heads as a program of some level folds them.
type atLevel struct {
	heads peer.Digest
	level uint32
}

// equal is invariant 1: equal heads give equal states.
func (c *checker) equal(m *machine, hash crdt.ID) {
	digest := atLevel{m.core.Digest(), m.level}
	known, ok := c.states[digest]
	if !ok {
		c.states[digest] = seenState{hash, m.name}
		return
	}
	if known.hash != hash {
		c.w.fail(1, "%s and %s hold the same entries; their states are %v and %v", m.name, known.by, hash, known.hash)
	}
	if known.by != m.name {
		c.w.sometimes("two peers are found equal")
	}
}

// batch is invariant 3: no actor writes one sequence number twice. It notes what is new.
func (c *checker) batch(m *machine, b crdt.Batch, touched map[crdt.Ref]bool) {
	log := c.entries[b.Actor]
	hashes := b.Hashes()
	for i, raw := range b.Changes {
		seq := b.First + uint64(i)
		switch have := uint64(len(log)); {
		case c.hostile[b.Actor]:
			c.change(b.Actor, seq, raw)
		case seq <= have && log[seq-1] != hashes[i]:
			c.w.fail(3, "actor %s has two entries %d, as %s sees it", b.Actor, seq, m.name)
			return
		case seq == have+1:
			log = append(log, hashes[i])
			c.change(b.Actor, seq, raw)
		}
		if s, ok := c.changes[crdt.ChangeID(b.Actor, raw)]; ok {
			touched[s.ref] = true
			c.revived(m, s)
		}
	}
	c.entries[b.Actor] = log
}

// change notes an entry that is seen for the first time.
func (c *checker) change(actor crdt.ActorID, seq uint64, raw []byte) {
	ch, err := crdt.DecodeChange(raw)
	if err != nil {
		return
	}
	c.total++
	c.written[ch.Object]++
	c.spends(actor, &ch)
	s := said{author: ch.Author, ref: ch.Object, actor: actor, seq: seq}
	if ch.Ops[0].Kind == crdt.OpDelete {
		s.of = ch.Incarnation
	}
	c.changes[crdt.ChangeID(actor, raw)] = s
}

// fields is invariant 5: what stands in a field was written by its owner. What stood there
// when the machine's copy of the object was last looked at is not looked at again.
func (c *checker) fields(m *machine, ref crdt.Ref) {
	before := c.looked[lookedAt{m, ref}]
	now := m.core.Incarnations(api.Key(ref))
	for i, o := range now {
		old := &crdt.Object{}
		if i < len(before) && before[i].ID() == o.ID() {
			old = before[i]
		}
		if !o.SameFields(old) {
			c.spec(m, o)
		}
		o.RegistersSince(old, func(step string, r *crdt.Register) {
			if r != nil {
				c.register(m, o, step, r)
			}
		})
	}
	c.looked[lookedAt{m, ref}] = now
}

// lookedAt names one machine's copy of an object.
type lookedAt struct {
	m   *machine
	ref crdt.Ref
}

// spec looks at who wrote the fields of the spec and of the lifecycle.
func (c *checker) spec(m *machine, o *crdt.Object) {
	kind := o.Ref().Kind
	for path, cell := range o.Fields() {
		owner := api.OwnerOf(kind, path)
		if owner == api.OwnerParent || owner == api.People && strings.HasPrefix(path, "spec.") {
			owner = api.SpecOwner(kind, o.Creator())
		}
		if !owns(cell.Author, owner) {
			c.w.fail(5, "%s of %s was written by %s, as %s sees it", path, o.Ref(), cell.Author, m.name)
		}
	}
}

// register looks at who wrote a step's result, and what.
func (c *checker) register(m *machine, o *crdt.Object, step string, r *crdt.Register) {
	kind := o.Ref().Kind
	owner := api.StepOwner(kind, step)
	id, _, _ := o.ResultChange(step)
	if author := c.changes[id].author; !owns(author, owner) || owner == api.People {
		c.w.fail(5, "step %s of %s was written by %q, as %s sees it", step, o.Ref(), author, m.name)
	}
	for path := range r.Outputs {
		if api.OwnerOf(kind, path) != owner {
			c.w.fail(5, "step %s of %s wrote %s, which is not its own", step, o.Ref(), path)
		}
	}
}

func owns(author, owner string) bool {
	if owner == api.People {
		return strings.HasPrefix(author, "user:")
	}
	return author == "loop:"+owner
}

// acknowledged is invariant 2 at the moment of the answer: the change is on the disks
// that the answer names.
func (c *checker) acknowledged(m *machine, a peer.Answer) {
	holders := []*machine{m}
	for _, other := range c.w.machines {
		if a.HeldBy != "" && m.core.NameOf(other.id) == a.HeldBy && !c.ruined(other) {
			holders = append(holders, other)
			c.w.sometimes("a change is acknowledged by a second disk")
		}
	}
	for _, o := range a.Objects {
		if o.Change.IsZero() {
			continue
		}
		s, durable := c.changes[o.Change]
		if !durable {
			c.w.fail(2, "%s acknowledges the change %v of %s, which no disk holds", m.name, o.Change, o.Key)
			return
		}
		k := &ack{o.Key, o.Change, s.actor, s.seq, slices.Clone(holders)}
		c.acks = append(c.acks, k)
		c.held(k)
	}
}

// ruined reports whether a disk lost what it held while its acknowledgement may have been
// on the way to whoever answers: for longer than a write waits.
func (c *checker) ruined(m *machine) bool {
	at, damaged := c.damages[m]
	return damaged && c.w.now-at < 10*time.Second
}

// held checks that every disk that is to hold an acknowledged change does.
func (c *checker) held(k *ack) {
	for _, m := range k.holders {
		if m.disk.Last(k.actor) < k.seq {
			c.w.fail(2, "the change %v of %s was acknowledged, and the disk of %s does not hold it", k.change, k.key, m.name)
		}
	}
}

// started looks at a disk that a peer has just been started from.
func (c *checker) started(m *machine) {
	for _, k := range c.acks {
		if slices.Contains(k.holders, m) {
			c.held(k)
		}
	}
}

// damaged notes that a disk lost what it held, by a fault that no program survives.
func (c *checker) damaged(m *machine) {
	c.damages[m] = c.w.now
	for _, k := range c.acks {
		if m.gone || m.disk.Last(k.actor) < k.seq {
			k.holders = slices.DeleteFunc(k.holders, func(h *machine) bool { return h == m })
		}
	}
}

// sent looks at a message on its way out: what a peer says of itself is on its disk.
func (c *checker) sent(m *machine, msg peer.Message) {
	var heads crdt.Heads
	switch msg := msg.(type) {
	case peer.Ack:
		heads = msg.Heads
	case peer.Have:
		heads = msg.Heads
	case peer.Vector:
		heads = msg.Heads
	}
	for actor, h := range heads {
		if have, _ := m.disk.Hash(actor, h.Seq); have != h.Hash {
			c.w.fail(2, "%s tells of entry %d of actor %s, which is not on its disk", m.name, h.Seq, actor)
		}
	}
}

// hosted is invariant 6: what runs on a machine was given no more than it has.
func (c *checker) hosted(h *host) {
	cpu, memory := h.used()
	if cpu > h.cpu || memory > h.memory {
		c.w.fail(6, "%s runs pods with %s cores and %s; it has %s and %s", h.m.name,
			api.FormatCPU(cpu), api.FormatBytes(memory), api.FormatCPU(h.cpu), api.FormatBytes(h.memory))
	}
}

// voteLife is how old an answer of a voter may be when it counts: peer's voteTTL, and
// what a clock that jumped back adds.
const voteLife = 6*time.Second + 10*time.Second

// acting looks at an action before it runs. A machine that starts what another may still
// run must have heard from a majority of all voters.
func (c *checker) acting(m *machine, a peer.Action) {
	if a.Undo || a.Step.Undo == nil || a.Inputs.Key.Kind != "Pod" {
		return
	}
	seen, ok := m.core.See(a.Inputs.Key)
	if !ok || seen.Object.ID != a.Inputs.ID {
		return
	}
	r := seen.Folded.Registers()[a.Step.Name]
	other := c.w.byID[r.Executor]
	if other == nil || other == m || r.Phase == crdt.PhaseUndone {
		return
	}
	if in, ok := m.core.Trust().ByID(other.id); !ok || in.Removed {
		return
	}
	c.w.sometimes("a silent machine's pod is replaced")
	heard := 1
	_, voters := m.core.Voters()
	if !slices.Contains(voters, m.id) {
		heard = 0
	}
	for _, v := range voters {
		if v == m.id {
			continue
		}
		from := c.w.byID[v]
		if l := c.w.net.links[from.index][m.index]; l.arrived && c.w.now-l.heard <= voteLife {
			heard++
		}
	}
	if heard <= len(voters)/2 {
		c.w.fail(7, "%s starts %s of %s, which %s holds, and has heard from %d of %d voters", m.name, a.Step.Name, a.Inputs.Key, other.name, heard, len(voters))
	}
}

// rolledBack is invariant 9: a rollback gives the exact spec.
func (c *checker) rolledBack(m *machine, key api.Key, a peer.Answer, spec map[string]string) {
	if a.Err != nil || len(a.Objects) != 1 || a.Objects[0].Change.IsZero() {
		return
	}
	for _, o := range m.core.Incarnations(key) {
		got, err := o.SpecAt(a.Objects[0].Change)
		if err != nil {
			continue
		}
		c.w.sometimes("a rollback")
		if fmt.Sprint(got) != fmt.Sprint(spec) {
			c.w.fail(9, "%s was rolled back to %v and is %v", key, spec, got)
		}
	}
}
