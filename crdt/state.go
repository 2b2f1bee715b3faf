package crdt

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Outcome is what came of a change.
type Outcome uint8

// The outcomes. Of those, Took and Declined alter what readers see.
const (
	Took       Outcome = iota + 1 // it has its effect
	Repeated                      // it was there already
	Superseded                    // a result that lost against the one that is there
	Declined                      // refused: kept visible, without effect
	Waits                         // something that it builds on has not arrived
)

// String names the outcome.
func (o Outcome) String() string {
	names := [...]string{"?", "took effect", "repeated", "superseded", "refused", "waits"}
	if int(o) < len(names) {
		return names[o]
	}
	return names[0]
}

// Applied is what came of a change and of those that waited for it.
type Applied struct {
	Object  Ref
	Outcome Outcome
	// Reason says in words why a change was refused or waits.
	Reason string
	// Unjudged: it waits for the authorisation that it was written under.
	Unjudged bool
	// Released counts the waiting changes that this one let in. All are of the same
	// object.
	Released int
}

// State folds changes into objects. The same set of changes gives the same state,
// in whatever order, grouping and repetition they are applied. It is not safe for
// concurrent use; the objects that it hands out are.
type State struct {
	cfg   Config
	level uint32
	slots map[Ref]*slot
	kinds map[string]*index
	room  room
	names *Names // one copy of each kind, namespace and step
	sum   sum
	count int     // members of sum
	dirty []*slot // since the hash was last asked for
	asked bool    // for the hash, ever
	// opened are the slots that are open; the others are packed.
	opened openSlots
	// scratch is memory for what is only hashed or copied.
	scratch []byte
	// file is the checkpoint that objects at rest are read from, nil for none; inMemory
	// and onDisk are how many bytes of them are not in it, and are.
	file     File
	inMemory int
	onDisk   int
}

// NewState returns an empty state.
func NewState(cfg Config) (*State, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	limit := cfg.MaxWaiting
	if limit == 0 {
		limit = defaultMaxWaiting
	}
	return &State{
		cfg:    cfg,
		level:  cfg.Level,
		slots:  map[Ref]*slot{},
		kinds:  map[string]*index{},
		room:   newRoom(limit),
		names:  NewNames(maxNames),
		opened: openSlots{limit: cmp.Or(cfg.Open, defaultOpen)},
	}, nil
}

// Apply folds one change, whose signature has been checked, under its ID. It takes
// what cannot count yet, too: nothing of an accepted log may be dropped. The door
// bounds what waits, with [State.Admits].
func (s *State) Apply(c Change, id ID) Applied {
	sl := s.slot(c.Object)
	v := s.offer(sl, &c, id)
	a := Applied{Object: sl.ref, Outcome: v.outcome, Reason: v.reason}
	a.Unjudged = v.outcome == Waits && v.cause == forAuthorisation
	if v.outcome == Waits {
		s.wait(sl, &waiter{c, id, v})
	}
	a.Released = s.release(sl, v.arrived)
	s.refresh(sl)
	s.trim()
	return a
}

// release offers again what waits for the arrived, and for what arrives with it. A change
// that builds on one of another object waits on: that never comes to its own.
func (s *State) release(sl *slot, arrived []ID) (released int) {
	for len(arrived) > 0 {
		waiters := s.room.take(arrived[0])
		arrived = arrived[1:]
		for _, w := range waiters {
			if w.change.Object != sl.ref {
				s.room.enter(w)
				continue
			}
			v := s.offer(sl, &w.change, w.id)
			if v.outcome == Waits {
				w.verdict = v
				s.wait(sl, w)
				continue
			}
			released++
			arrived = append(arrived, v.arrived...)
		}
	}
	return released
}

// verdict is what offer decides about a change.
type verdict struct {
	outcome Outcome
	reason  string
	cause   cause
	missing ID   // what it waits for, if that has an ID
	arrived []ID // what others may have waited for
}

func waits(why cause, missing ID) verdict {
	return verdict{outcome: Waits, cause: why, missing: missing, reason: why.String()}
}

// offer folds the change if all that it builds on is there.
func (s *State) offer(sl *slot, c *Change, id ID) verdict {
	if s.room.holds(id) {
		return verdict{outcome: Repeated}
	}
	if c.Level > s.level {
		return waits(forLevel, ID{})
	}
	sh := shapeOf(c)
	if sh.malformed != "" {
		return decline(&sl.refusals, c, id, sh.malformed)
	}
	if sh.creates {
		return s.create(sl, c, id, sh)
	}
	line, gen := sl.incarnation(c.Incarnation)
	if line == nil {
		return waits(forIncarnation, c.Incarnation)
	}
	if why := line.root().refused; why != "" {
		return decline(&line.refusals, c, id, "its object's creation was refused: "+why)
	}
	if sh.result {
		return s.result(line, gen, c, id)
	}
	return s.edit(line, gen, c, id, sh)
}

func decline(among *refusals, c *Change, id ID, reason string) verdict {
	r := Refusal{Change: id, Author: strings.Clone(c.Author), HLC: c.HLC, Reason: reason}
	return verdict{outcome: among.add(r), reason: reason}
}

// permit asks for the author's authority.
func (s *State) permit(c *Change) (refused string, wait bool) {
	if s.cfg.Permits == nil {
		return "", false
	}
	err := s.cfg.Permits(*c)
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, ErrNotYet):
		return "", true
	}
	return err.Error(), false
}

func (s *State) create(sl *slot, c *Change, id ID, sh shape) verdict {
	if sl.find(id) {
		return verdict{outcome: Repeated}
	}
	refused, wait := s.permit(c)
	if wait {
		return waits(forAuthorisation, ID{})
	}
	n := newNode(c, id, nil, 0, sh.traits(true))
	if n.refused = s.trespass(c, c.Author); n.refused == "" {
		n.refused = refused
	}
	line := &lineage{gens: []*Object{{ref: sl.ref, id: id, creator: n.author, since: n}}}
	line.insert(n)
	sl.lines = append(sl.lines, line)
	return tookOrNot(n, id)
}

func tookOrNot(n *node, arrived ...ID) verdict {
	if !n.counts() {
		return verdict{outcome: Declined, reason: n.refused, arrived: arrived}
	}
	return verdict{outcome: Took, arrived: arrived}
}

func (s *State) edit(line *lineage, gen int, c *Change, id ID, sh shape) verdict {
	if line.find(id) != nil {
		return verdict{outcome: Repeated}
	}
	parents := make([]*node, len(c.Parents))
	for i, p := range c.Parents {
		if parents[i] = line.find(p); parents[i] == nil {
			return waits(forParent, p)
		}
	}
	denied, wait := s.permit(c)
	if wait {
		return waits(forAuthorisation, ID{})
	}
	creator := line.root().author
	refused := s.trespass(c, creator)
	if refused == "" {
		refused = denied
	}
	byOwner := isOwner(c.Author, s.specOwner(c.Object.Kind, creator))
	if refused != "" && !(byOwner && (sh.spec || sh.deletes)) {
		return decline(&line.refusals, c, id, refused)
	}
	n := newNode(c, id, parents, gen, sh.traits(byOwner))
	if n.refused = refused; refused == "" && n.is(traitCausal) && line.knewDeletion(n) {
		n.refused = "its author knew that the object was deleted"
	}
	if revived := line.insert(n); !revived.IsZero() {
		return tookOrNot(n, id, revived)
	}
	return tookOrNot(n, id)
}

// traits of a node; byOwner tells whether its author owns the spec.
func (s shape) traits(byOwner bool) (t trait) {
	if s.creates {
		t |= traitCreates | traitRev | traitCausal
	}
	if s.deletes {
		t |= traitDeletes | traitCausal
	}
	if s.spec {
		t |= traitSpec
		if byOwner {
			t |= traitRev | traitCausal
		}
	}
	return t
}

// knewDeletion reports whether a deletion of the generation that n names, or of a
// later one, is among n's ancestors.
func (l *lineage) knewDeletion(n *node) bool {
	if len(l.gens) == 1 {
		return false
	}
	ancestors := closure(n.parents)
	return slices.ContainsFunc(l.nodes, func(d *node) bool {
		return d.is(traitDeletes) && d.counts() && d.gen >= n.gen && ancestors.has(d)
	})
}

// result merges the registers of a change. The winner is chosen before its
// authorisation is judged, so that dropping those that lost never matters.
func (s *State) result(line *lineage, gen int, c *Change, id ID) verdict {
	refused, wait := s.permit(c)
	if wait {
		return waits(forAuthorisation, ID{})
	}
	if why := s.trespass(c, line.root().author); why != "" {
		return decline(&line.refusals, c, id, why)
	}
	v := verdict{outcome: Repeated}
	for i := range c.Ops {
		o := &c.Ops[i]
		g := stepResult{step: s.names.One(o.Path), body: o.Register.encoded(), stamp: c.HLC, change: id, refused: refused}
		next, outcome := line.gens[gen].withResult(g)
		line.gens[gen] = next
		if v.outcome != Took && outcome != Repeated {
			v.outcome = outcome
		}
	}
	if v.outcome == Took && refused != "" {
		v.outcome, v.reason = Declined, refused
	}
	return v
}

func (s *State) slot(ref Ref) *slot {
	sl := s.slots[ref]
	if sl == nil {
		ref = Ref{s.names.One(ref.Kind), s.names.One(ref.Namespace), strings.Clone(ref.Name)}
		sl = &slot{ref: ref}
		s.slots[ref] = sl
	}
	s.open(sl)
	return sl
}

// maxNames bounds the kinds, namespaces and steps of which one copy is kept.
const maxNames = 4096

// refresh brings up to date what depends on the slot as a whole.
func (s *State) refresh(sl *slot) {
	sl.settle(sl.held > 0)
	s.forget(sl)
	if sl.view != nil {
		s.list(sl)
	}
	s.soil(sl)
}

// forget drops what was packed of a slot that is another now.
func (s *State) forget(sl *slot) {
	if sl.packed != nil {
		s.inMemory -= len(*sl.packed)
	}
	s.onDisk -= int(sl.stored.size)
	sl.packed, sl.stored = nil, place{}
}

// soil notes that a slot's hash is another now. Until somebody asks for hashes, all are.
func (s *State) soil(sl *slot) {
	if s.asked && !sl.dirty {
		sl.dirty = true
		s.dirty = append(s.dirty, sl)
	}
}

// list puts a slot among those of its kind.
func (s *State) list(sl *slot) {
	if sl.listed {
		return
	}
	sl.listed = true
	x := s.kinds[sl.ref.Kind]
	if x == nil {
		x = &index{}
		s.kinds[sl.ref.Kind] = x
	}
	x.fresh = append(x.fresh, sl)
}

// Level returns the level that changes are folded at.
func (s *State) Level() uint32 { return s.level }

// SetLevel raises the level and folds what waited for it. It returns the names of
// the objects concerned.
func (s *State) SetLevel(level uint32) []Ref {
	s.level = max(s.level, level)
	return s.again(forLevel)
}

// Retry judges again what waits for authorisation, and returns the objects
// concerned.
func (s *State) Retry() []Ref { return s.again(forAuthorisation) }

func (s *State) again(why cause) []Ref {
	refs := map[Ref]struct{}{}
	for _, w := range s.room.leave(why) {
		sl := s.slot(w.change.Object)
		if why == forLevel {
			sl.held--
		}
		v := s.offer(sl, &w.change, w.id)
		if v.outcome == Waits {
			w.verdict = v
			s.wait(sl, w)
		}
		s.release(sl, v.arrived)
		s.refresh(sl)
		refs[sl.ref] = struct{}{}
		s.trim()
	}
	return slices.SortedFunc(maps.Keys(refs), Ref.Compare)
}
