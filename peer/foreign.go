package peer

import (
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// The kinds of the objects that hook foreign steps, and points to order them around, into
// lifecycles.
const (
	kindStep   = "Step"
	kindTarget = "Target"
)

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

// composition is a kind with the steps of foreign loops in it.
type composition struct {
	base, kind Kind
	targets    []lifecycle.Target
	hooks      map[string]hook // by the step's name in the graph
	signature  string          // of all that it was made from
}

// kindOf is the kind as it is composed now.
func (e *engine) kindOf(name string) (Kind, bool) {
	c, ok := e.reg.kinds[name]
	return c.kind, ok
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
		l.Entries = max(l.Entries, h.Entries)
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
	if t.ref.Kind != kindStep {
		return
	}
	o, ok := e.c.journal.state.Object(t.ref)
	if !ok || !o.HoldsName() || e.executor(t) != e.c.self.Name {
		return
	}
	for _, loser := range o.Losers() {
		if loser.Creator == o.Creator() && strings.HasPrefix(loser.Creator, api.LoopAuthor) {
			e.deleteLife(t.ref, loser.ID, loser.Creator, "declared on several machines at once")
		}
	}
}

// Misfit says why a Step is not part of its lifecycle, or a Kind not what it says.
func (v *view) Misfit(key api.Key) string { return v.c.engine.reg.misfits[crdt.Ref(key)] }

// skips reports whether a step is passed over: because a person said so on the record,
// or because it was hooked in after the object's last edit, and concerns it only from
// the next on.
func (e *engine) skips(t *tracked, snap *lifecycle.Object, step string) bool {
	if snap.Fields.Has("lifecycle.skip") && slices.Contains(snap.Fields.Strings("lifecycle.skip"), step) {
		return true
	}
	h, ok := e.reg.kinds[t.ref.Kind].hooks[step]
	if ok && h.Loop == e.madeBy(t) {
		return true // else a loop that adds pods to pods would add pods to these
	}
	if !ok || !h.NextRun || snap.Deleted {
		return false
	}
	if _, ran := snap.Results[step]; ran {
		return false
	}
	return e.editedAt(t.ref, h.Step.Authors) < h.since
}

// editedAt is the clock reading of the latest rev by one of the authors.
func (e *engine) editedAt(ref crdt.Ref, by api.Authors) (at uint64) {
	o, ok := e.c.journal.state.Object(ref)
	if !ok {
		return 0
	}
	for _, r := range o.Revs() {
		if r.IsRev && r.Refused == "" && by.Has(r.Author) {
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
	for _, name := range sortedKeys(c.engine.reg.kinds) {
		if _, there := c.Catalog().KindByName(name); there {
			list = append(list, c.engine.reg.kinds[name].kind.Graph)
		}
	}
	return list
}

// Misfits tells, sorted, which Steps and Kinds do not fit, and why.
func (c *Core) Misfits() []string {
	var list []string
	for ref, why := range c.engine.reg.misfits {
		list = append(list, api.Key(ref).String()+": "+why)
	}
	slices.Sort(list)
	return list
}
