package peer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// kindStep is the kind of the objects that hook foreign steps into lifecycles.
const kindStep = "Step"

// Attached says that a foreign loop's program has attached to this peer: what waited
// for it is tried again.
type Attached struct{ Loop string }

func (Attached) event() {}

// hook is a Step that is part of a lifecycle.
type hook struct {
	loops.Hook
	// since is the clock reading at which the Step was created.
	since uint64
}

// composition is the lifecycle of a kind with the steps of foreign loops in it.
type composition struct {
	kind  Kind
	hooks map[string]hook // by the step's name in the graph
}

// kindOf is the kind as it is composed now.
func (e *engine) kindOf(name string) (Kind, bool) {
	if c, ok := e.composed[name]; ok {
		return c.kind, true
	}
	k, ok := e.c.cfg.Kinds[name]
	return k, ok
}

// otherSpec reports whether what is wanted of an object is another.
func otherSpec(a, b *lifecycle.Object) bool {
	if a == nil || b == nil {
		return a != b
	}
	return a.ID != b.ID || a.Deleted != b.Deleted || !maps.Equal(a.Fields, b.Fields)
}

func (e *engine) kindNamed(name string) Kind {
	k, _ := e.kindOf(name)
	return k
}

// hooked notes that a Step changed: the lifecycle of the kind that it hooks into, or
// did, is composed again.
func (e *engine) hooked(before, after *lifecycle.Object) {
	kinds := map[string]bool{}
	for _, o := range []*lifecycle.Object{before, after} {
		if o != nil {
			kinds[o.Fields.String("spec.kind")] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		e.compose(kind)
	}
}

// compose builds a kind's graph from its own loops and from all Steps that fit, the
// older before the newer: of two that clash, every peer with the same Steps leaves
// out the same one.
func (e *engine) compose(name string) {
	base, ok := e.c.cfg.Kinds[name]
	if !ok || base.Compose == nil {
		return
	}
	c := composition{kind: base, hooks: map[string]hook{}}
	for _, t := range e.stepsFor(name) {
		why := c.add(base, t.snap, e.bornAt(t.ref))
		if e.misfits[t.ref] != why {
			e.misfits[t.ref] = why
			e.decideAgain(t, "register")
		}
	}
	e.composed[name] = c
	for _, t := range e.objects {
		if t.ref.Kind == name {
			t.kind = c.kind
			e.mark(t.ref)
		}
	}
	e.sortQueue()
}

// stepsFor lists the live Steps of a kind in the order of their creation.
func (e *engine) stepsFor(kind string) []*tracked {
	var list []*tracked
	for _, t := range e.objects {
		if t.ref.Kind == kindStep && t.snap != nil && !t.snap.Deleted && t.snap.Fields.String("spec.kind") == kind {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *tracked) int {
		return cmp.Or(cmp.Compare(e.bornAt(a.ref), e.bornAt(b.ref)), cmp.Compare(a.snap.ID, b.snap.ID))
	})
	return list
}

// bornAt is the clock reading of an object's creation.
func (e *engine) bornAt(ref crdt.Ref) uint64 {
	o, ok := e.c.journal.state.Object(ref)
	if !ok {
		return 0
	}
	if revs := o.Revs(); len(revs) > 0 {
		return revs[0].HLC
	}
	return 0
}

// add puts a Step into the composition, or says why it does not fit.
func (c *composition) add(base Kind, o *lifecycle.Object, since uint64) (why string) {
	h, err := loops.HookOf(o.Key.Name, o.Fields)
	if err != nil {
		return err.Error()
	}
	next := maps.Clone(c.hooks)
	if _, taken := next[h.Step.Name]; taken {
		return "another Step already declares " + h.Step.Name + "; give this one another spec.step"
	}
	next[h.Step.Name] = hook{h, since}
	g, err := base.Compose(foreignLoops(next))
	if err != nil {
		return err.Error()
	}
	c.hooks, c.kind.Graph = next, g
	return ""
}

// foreignLoops gathers hooks into loops, both sorted by name.
func foreignLoops(hooks map[string]hook) []lifecycle.Loop {
	byName := map[string]*lifecycle.Loop{}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		h := hooks[name]
		l := byName[h.Loop]
		if l == nil {
			l = &lifecycle.Loop{Name: h.Loop, Kind: h.Kind}
			byName[h.Loop] = l
		}
		l.Steps = append(l.Steps, h.Step)
		l.Claims = append(l.Claims, h.Claims...)
	}
	var list []lifecycle.Loop
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, *byName[name])
	}
	return list
}

// settleDeclarations deletes what the programs of one loop, attaching to several machines
// at once, declared under one name beside the Step that holds it. They mean the same Step;
// of two people's creations that can't be said.
func (e *engine) settleDeclarations(t *tracked) {
	o, ok := e.c.journal.state.Object(t.ref)
	if t.ref.Kind != kindStep || !ok || !o.HoldsName() || e.executor(t) != e.c.self.Name {
		return
	}
	for _, loser := range o.Losers() {
		if loser.Creator == o.Creator() && strings.HasPrefix(loser.Creator, api.LoopAuthor) {
			e.deleteLife(t.ref, loser.ID, loser.Creator, "declared on several machines at once")
		}
	}
}

// fits tells before a Step is written whether it would become part of its lifecycle.
func (e *engine) fits(key api.Key, f api.Fields) string {
	kind := f.String("spec.kind")
	base, ok := e.c.cfg.Kinds[kind]
	if !ok {
		return "" // validation says that
	}
	c := composition{kind: base, hooks: map[string]hook{}}
	for _, t := range e.stepsFor(kind) {
		if t.ref != crdt.Ref(key) {
			c.add(base, t.snap, 0)
		}
	}
	return c.add(base, &lifecycle.Object{Key: key, Fields: f}, 0)
}

// Misfit says why a Step is not part of its lifecycle.
func (v *view) Misfit(key api.Key) string { return v.c.engine.misfits[crdt.Ref(key)] }

// skips reports whether a step is passed over: because a person said so on the record,
// or because it was hooked in after the object's last edit, and concerns it only from
// the next on.
func (e *engine) skips(t *tracked, snap *lifecycle.Object, step string) bool {
	if snap.Fields.Has("lifecycle.skip") && slices.Contains(snap.Fields.Strings("lifecycle.skip"), step) {
		return true
	}
	h, ok := e.composed[t.ref.Kind].hooks[step]
	if !ok || !h.NextRun || snap.Deleted {
		return false
	}
	if _, ran := snap.Results[step]; ran {
		return false
	}
	return e.editedAt(t.ref) < h.since
}

// editedAt is the clock reading of the latest rev.
func (e *engine) editedAt(ref crdt.Ref) (at uint64) {
	o, ok := e.c.journal.state.Object(ref)
	if !ok {
		return 0
	}
	for _, r := range o.Revs() {
		if r.IsRev && r.Refused == "" {
			at = max(at, r.HLC)
		}
	}
	return at
}

// attached tries again what waited for a loop's program on this machine.
func (e *engine) attached(a Attached) {
	for _, t := range e.objects {
		woken := false
		for _, step := range sortedKeys(t.tries) {
			if t.kind.Graph.StepOwner(step) == a.Loop {
				t.tries[step].woken, t.tries[step].next = true, e.c.now
				woken = true
			}
		}
		if woken {
			e.mark(t.ref)
		}
	}
	e.sortQueue()
}

// Graphs returns the lifecycles of all kinds as they are now, sorted by kind.
func (c *Core) Graphs() []*lifecycle.Graph {
	var list []*lifecycle.Graph
	for _, name := range sortedKeys(c.cfg.Kinds) {
		list = append(list, c.engine.kindNamed(name).Graph)
	}
	return list
}

// Misfits tells, sorted, which Steps are not part of what they hook into, and why.
func (c *Core) Misfits() []string {
	var list []string
	for ref, why := range c.engine.misfits {
		if why != "" {
			list = append(list, api.Key(ref).String()+": "+why)
		}
	}
	slices.Sort(list)
	return list
}
