package peer

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/sched"
)

// engine evaluates objects when something that concerns them changes, and turns
// what comes out into decisions, actions and registers. Nothing polls: an object at
// rest costs nothing.
type engine struct {
	c       *Core
	objects map[crdt.Ref]*tracked
	lists   map[string][]*lifecycle.Object // sorted by key; nil when out of date
	queue   []*tracked
	kinds   map[string]*Kind // one copy of each, for its objects
	names   *crdt.Names      // one copy of each
	wakes   wakeQueue
	topics  index
	asked   index                            // machine name -> objects that have the voters asked about it
	placed  index                            // machine name -> objects placed on it
	usage   map[string]lifecycle.Reservation // machine name -> what they reserve
	// children: the key of a parent -> its children, of whichever incarnation.
	children index
	// own holds the kinds that Kind objects define, by name, and reg all kinds with the
	// steps of foreign loops in them; stale: it is to be made again.
	own   map[string]ownKind
	reg   *registration
	stale bool
	// health is what the probes of this machine last said, by identity and container.
	health map[string]map[string]Probed
	// moved are the machines, and the pods whose address is not of their machine's prefix,
	// with what their routes depend on; routes is what follows.
	moved  map[crdt.Ref][4]string
	routes routes
	// atHand are the objects that are at hand and may be dropped, the longest first.
	atHand  []*tracked
	members map[string]string // machine name -> its topic, one copy of each
	feed    feed
	effects *effects
	held    *ledger
	entries entryCounts
	// unseen are the objects of which a start only believed notes, in the order of their
	// keys; those that were looked at since may be among them.
	unseen []*tracked
	// unswept: the machine may run what this peer knows nothing of.
	unswept bool
	actions map[uint64]*action
	lastID  uint64
	// eligible are the members that may execute, nil if they have to be found anew; era
	// counts how often they were others.
	eligible []string
	era      uint64
	// eval is the evaluation under way; its memory is used again and again.
	eval lifecycle.Evaluation
	// waits are steps that were found blocked by it: what they wait for may be looked at
	// later in the same turn.
	waits []*lifecycle.Step
}

// tracked is one object as the engine follows it.
type tracked struct {
	ref      crdt.Ref
	kind     *Kind
	e        *engine
	life     uint64          // the beginning of its identity; 0 if there is no such object (any more)
	warm     *warm           // nil while it is at rest
	waits    bool            // for being dropped, in engine.atHand
	marked   bool            // to be looked at, in engine.queue
	unseen   bool            // nobody looked at it since the start, and a note is believed
	verdict  lifecycle.State // of the last evaluation; "" if nothing was looked at since a change
	gone     bool            // deleted, and everything taken down
	left     bool            // to others: nothing of it concerned this peer when it was last looked at
	executor string          // as it was in that era
	era      uint64
	topics   []string
	asks     []string // the machines that it has the voters asked about
	placed   string
	reserved lifecycle.Reservation
	running  map[string]*action
	tries    map[string]*try
	looked   map[string]time.Time // when steps with an interval were last done here
	adopted  map[string]result    // acting steps that this life of the peer has looked at, and what came of it
	queued   map[string]time.Time
	parent   string          // the key of its parent, as in the index of children
	again    map[string]bool // steps that are to decide once more
	// disclaimed is what was said of steps that were taken down for a life without the name.
	disclaimed map[string]disclaimed
	// feedback bounds how often what stands further down makes a step run again.
	feedback map[string]lifecycle.Feedback
}

// try is the local memory of a blocked step: it is repeated when something that it
// consults changed, but with backoff.
type try struct {
	count int
	next  time.Time
	woken bool
}

func newEngine(c *Core) *engine {
	return &engine{
		c: c, objects: map[crdt.Ref]*tracked{}, lists: map[string][]*lifecycle.Object{},
		kinds: map[string]*Kind{}, names: crdt.NewNames(maxNames), topics: index{}, asked: index{}, placed: index{}, usage: map[string]lifecycle.Reservation{},
		own: map[string]ownKind{}, reg: register(c.cfg.Kinds, nil, api.Builtin(), nil),
		children: index{}, moved: map[crdt.Ref][4]string{}, members: map[string]string{}, health: map[string]map[string]Probed{},
		feed: feed{base: c.cfg.Seed >> 2}, effects: newEffects(), held: newLedger(), entries: entryCounts{}, actions: map[uint64]*action{},
	}
}

// changed notes that an object's replicated state is another.
func (e *engine) changed(ref crdt.Ref) {
	t := e.track(ref)
	if t == nil {
		return
	}
	var before *lifecycle.Object // of kinds that don't rest it is always at hand
	if t.warm != nil {
		before = t.warm.snap
	}
	e.refresh(t)
	e.mark(ref)
	e.wakeTopic(objectTopic(ref))
	if t.kind.Reservation == nil { // else only a change of what is reserved concerns others
		e.wakeTopic(kindTopic(ref.Kind))
	}
	switch {
	case ref.Kind == "Machine":
		e.wakeIndex(e.placed, ref.Name)
	case (ref.Kind == kindStep || ref.Kind == kindTarget) && otherSpec(before, t.snap()):
		e.stale = true
	case ref.Kind == kindKind && otherSpec(before, t.snap()):
		e.define(t)
	case before == nil && e.own[ref.Kind].table.Own && !e.alive(ref.Kind):
		e.stale = true // an object of a Kind that was deleted: a partition kept them apart
	}
	if is := e.routed(t.snap()); e.moved[ref] != is {
		e.reroute(t, is)
	}
}

func (e *engine) selfRef() crdt.Ref { return crdt.Ref{Kind: "Machine", Name: e.c.self.Name} }

func (e *engine) track(ref crdt.Ref) *tracked {
	if t, ok := e.objects[ref]; ok {
		return t
	}
	kind, ok := e.kindOf(ref.Kind)
	if !ok {
		return nil
	}
	t := &tracked{e: e, ref: ref, kind: e.shared(ref.Kind, kind)}
	e.objects[ref] = t
	return t
}

// refresh takes a new snapshot of the folded object.
func (e *engine) refresh(t *tracked) {
	before, old := t.life, t.warm
	if t.life = 0; e.take(t) {
		t.life = lifeOf(t.warm.folded)
	}
	if t.life != before {
		if before != 0 {
			e.c.compaction.succeeded[t.ref] = true
		}
		t.tries, t.queued, t.feedback = nil, nil, nil
	}
	e.feed.changed(t)
	e.lists[t.ref.Kind] = nil
	same := t.life == before && t.life != 0 && !t.unseen && old != nil && lifecycle.SameMap(old.snap.Fields, t.warm.snap.Fields)
	if !same || t.gone || t.warm.machine != t.placed { // else what it is accounted for is as it was
		e.account(t)
	}
	if same {
		e.wakeParent(t)
	} else {
		e.relate(t)
	}
}

// account keeps what is placed and reserved on each machine up to date.
func (e *engine) account(t *tracked) {
	machine, now := e.placement(t)
	if machine != t.placed {
		machine = e.names.One(machine)
		e.placed.remove(t.placed, t)
		e.placed.add(machine, t)
		e.lessPlaced(t.placed)
	}
	e.usage[t.placed] = e.usage[t.placed].Sub(t.reserved)
	e.usage[machine] = e.usage[machine].Add(now)
	if machine != t.placed || !now.Equal(t.reserved) {
		e.wakeTopic(kindTopic("Pod"))
	}
	t.placed, t.reserved = machine, now
}

// placement is where an object is placed, and what it reserves there.
func (e *engine) placement(t *tracked) (machine string, r lifecycle.Reservation) {
	if t.life == 0 || t.gone {
		return "", r
	}
	if machine = t.hand().machine; machine != "" && t.kind.Reservation != nil {
		r = t.kind.Reservation(t.snap().Fields)
	}
	return machine, r
}

// mark puts an object into the queue of this turn.
func (e *engine) mark(ref crdt.Ref) {
	if t := e.track(ref); t != nil && !t.marked {
		t.marked = true
		e.queue = append(e.queue, t)
	}
}

// shared returns one copy of a kind for all of its objects.
func (e *engine) shared(name string, kind Kind) *Kind {
	if e.kinds[name] == nil {
		e.kinds[name] = &kind
	}
	return e.kinds[name]
}

// wakeTopic looks again at everything that waits for the topic.
func (e *engine) wakeTopic(topic string) { e.wakeIndex(e.topics, topic) }

func (e *engine) wakeIndex(ix index, topic string) {
	for _, t := range ix.sorted(topic) {
		if t.unseen {
			continue // it will be looked at
		}
		for _, try := range t.tries {
			try.woken = true
		}
		e.mark(t.ref)
	}
}

// memberChanged: a machine is seen differently from here.
func (e *engine) memberChanged(name string) {
	e.eligible = nil
	e.wakeTopic(e.memberTopic(name))
	e.wakeTopic(kindTopic("members"))
	e.wakeIndex(e.placed, name)
	e.markUnsettled()
	e.mark(e.selfRef())
}

// clusterChanged: the set of machines is another; names may be, too.
func (e *engine) clusterChanged() {
	e.eligible, e.routes = nil, routes{}
	for _, t := range e.objects {
		if t.warm = nil; t.unseen { // the names of machines in it may be others
			continue
		}
		e.refresh(t)
		e.mark(t.ref)
	}
	e.sortQueue()
}

// markUnsettled looks again at every object that is not at rest: its executor may
// be another now. What was left to others concerns this peer only if that is the peer itself.
func (e *engine) markUnsettled() {
	for ref, t := range e.objects {
		if t.life == 0 || t.unseen || t.verdict == lifecycle.Converged || t.left && e.executor(t) != e.c.self.Name {
			continue
		}
		e.mark(ref)
	}
	e.sortQueue()
}

func (e *engine) sortQueue() { sortTracked(e.queue) }

func compareRefs(a, b crdt.Ref) int { return api.Key(a).Compare(api.Key(b)) }

// list returns the live objects of a kind, sorted by key.
func (e *engine) list(kind string) []*lifecycle.Object {
	if l := e.lists[kind]; l != nil {
		return l
	}
	list := []*lifecycle.Object{}
	for _, t := range e.tracked(kind) {
		list = append(list, t.snap())
	}
	if !e.rests(kind) {
		e.lists[kind] = list
	}
	return list
}

// reserved sums what objects placed on the machine reserve.
func (e *engine) reserved(machine string, except crdt.Ref) lifecycle.Reservation {
	sum := e.usage[machine]
	if t := e.objects[except]; t != nil && t.placed == machine {
		sum = sum.Sub(t.reserved)
	}
	return sum
}

// executor is the eligible member that rendezvous hashing gives the object.
func (e *engine) executor(t *tracked) string {
	if e.eligible == nil {
		e.eligible = []string{}
		for _, m := range e.c.trust.list {
			if e.c.members.alive(m.ID) {
				e.eligible = append(e.eligible, m.Name)
			}
		}
		e.era++
	}
	if t.era != e.era {
		t.executor, t.era = sched.Executor(api.Key(t.ref).String(), e.eligible), e.era
	}
	return t.executor
}

// maxRounds bounds how often one object is evaluated in one turn: a graph without
// undeclared cycles settles in about as many rounds as it has steps.
const maxRounds = 64

// maxLooked bounds how many objects are looked at before the turn ends, so that a start
// with very many does not keep everybody waiting.
const maxLooked = 1024

// settle evaluates whatever is due until nothing is, or the turn has lasted long enough.
func (e *engine) settle() {
	for _, t := range e.wakes.due(e.c.now) {
		e.mark(t.ref)
	}
	e.ensureSelf()
	e.ask()
	e.registered()
	if e.c.out.Looked = e.c.out.Looked || len(e.queue) > 0; len(e.queue) == 0 {
		e.look()
	}
	rounds := map[*tracked]int{}
	for looked := 0; (len(e.queue) > 0 || e.stale) && looked < maxLooked; looked++ {
		if e.registered(); len(e.queue) == 0 {
			break
		}
		t := e.queue[0]
		e.queue = e.queue[1:]
		t.marked = false
		if rounds[t]++; rounds[t] > maxRounds {
			e.wakes.add(e.c.now.Add(time.Second), t)
			continue
		}
		if e.evaluate(t); len(e.queue) == 0 {
			e.ask()
		}
	}
}

// nextWake is when something is to be looked at: at once, if the turn had no room for all.
func (e *engine) nextWake() time.Time {
	if len(e.queue) > 0 {
		return e.c.now
	}
	return earliest(e.wakes.next(), e.nextAsk(), e.nextLook())
}

// ensureSelf creates the object that describes this machine, once the log is known
// to be complete enough to say that there is none.
func (e *engine) ensureSelf() {
	ref := e.selfRef()
	if t := e.objects[ref]; t != nil && t.life != 0 {
		return
	}
	if _, member := e.c.trust.ids[e.c.self.Name]; !member {
		return
	}
	if len(e.c.trust.list) > 1 && !e.c.replica.synced {
		return
	}
	e.c.journal.write(crdt.Change{Object: ref, Author: "loop:" + api.LoopInventory, Ops: []crdt.Op{{Kind: crdt.OpCreate}}})
}
