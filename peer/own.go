package peer

import (
	"maps"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/rules"
)

// kindKind is the kind of the objects that define kinds.
const kindKind = "Kind"

// ownKind is a kind that a Kind object defines.
type ownKind struct {
	table api.Kind
	kind  Kind
	fault string // why the Kind does not hold together; empty if it does
}

// defineOwn compiles a Kind object, defaults filled in; it is false where no kind can have
// the name. A kind that does not hold together takes objects and does nothing for them.
func defineOwn(o *lifecycle.Object) (ownKind, bool) {
	table, ok := api.DefineKind(o.Key.Name, o.Fields)
	if !ok {
		return ownKind{}, false
	}
	own := ownKind{table: table}
	set, problems := rules.Compile(table, o.Fields)
	targets, list := loops.Own(table.Name, o.Fields)
	graph, err := lifecycle.NewGraph(table.Name, targets, list)
	if err != nil {
		own.fault = err.Error()
	} else if len(problems) > 0 {
		own.fault = problems[0].String()
	}
	catalog := api.Builtin().With(table)
	own.kind = Kind{
		Graph: graph,
		Compose: func(more []lifecycle.Target, foreign []lifecycle.Loop) (*lifecycle.Graph, error) {
			return lifecycle.NewGraph(table.Name, slices.Concat(targets, more), joinLoops(list, foreign))
		},
		Effective: func(f api.Fields) api.Fields { return catalog.Effective(table.Name, f) },
		Validate: func(f api.Fields) []api.Problem {
			if problems := catalog.Validate(table.Name, f); len(problems) > 0 {
				return problems
			}
			return set.Check(f)
		},
	}
	if own.fault == "" {
		own.kind.Goal = goalIn(graph)
	}
	for _, l := range list {
		if slices.ContainsFunc(l.Steps, func(s lifecycle.Step) bool { return s.Children != "" }) {
			own.kind.Derive = withChildren(own.kind.Derive, l.Name)
		}
	}
	if own.fault != "" {
		own.kind = own.unfit(own.fault)
	}
	return own, true
}

// unfit is the kind with a lifecycle in which every object waits, for the reason given.
func (o ownKind) unfit(why string) Kind {
	targets, list := loops.Unfit(o.table.Name, why)
	graph, err := lifecycle.NewGraph(o.table.Name, targets, list)
	if err != nil {
		panic("unreachable: the lifecycle of what does not fit is fixed: " + err.Error())
	}
	kind := o.kind
	kind.Graph, kind.Compose, kind.Goal = graph, nil, goalIn(graph)
	return kind
}

// joinLoops adds the steps of foreign loops to a kind's own, which may be of the same loops.
func joinLoops(own, foreign []lifecycle.Loop) []lifecycle.Loop {
	all := slices.Clone(own)
	for _, l := range foreign {
		for i, s := range l.Steps {
			h := loops.Hook{Kind: l.Kind, Loop: l.Name, Entries: l.Entries, Step: s}
			if i == 0 {
				h.Claims = l.Claims
			}
			all = loops.AddStep(all, h)
		}
	}
	return all
}

// checkKind is what Kind objects are valid by: their table, and what only a peer can
// compile.
func checkKind(f api.Fields) []api.Problem {
	if problems := api.Validate(kindKind, f); len(problems) > 0 {
		return problems
	}
	f = api.Effective(kindKind, f)
	table, ok := api.DefineKind("x", f)
	if !ok {
		panic("unreachable: x is free, and may be the name of a kind")
	}
	if _, problems := rules.Compile(table, f); len(problems) > 0 {
		return problems
	}
	targets, list := loops.Own(table.Name, f)
	if _, err := lifecycle.NewGraph(table.Name, targets, list); err != nil {
		return []api.Problem{{Path: "spec.steps", Message: err.Error()}}
	}
	return nil
}

// define takes over what a Kind object says.
func (e *engine) define(t *tracked) {
	e.stale = true
	if t.snap() == nil {
		return
	}
	if own, ok := defineOwn(t.snap()); ok {
		e.own[own.table.Name] = own
	}
}

// registers reports whether objects of a kind say what kinds and lifecycles are.
func registers(kind string) bool { return kind == kindKind || kind == kindStep || kind == kindTarget }

// applicants are all Kinds, Targets and Steps, those that were deleted as well.
func (e *engine) applicants() []applicant {
	var all []applicant
	for _, t := range e.objects {
		if registers(t.ref.Kind) && t.snap() != nil {
			all = append(all, applicant{t.snap(), e.bornAt(t.ref)})
		}
	}
	return all
}

// registered brings the kinds up to date with Kinds and Steps, and has every object of a
// kind that is another now looked at: some may have been here before their Kind.
func (e *engine) registered() *registration {
	if !e.stale {
		return e.reg
	}
	e.stale = false
	old := e.reg
	e.reg = register(e.c.cfg.Kinds, e.own, e.tables(e.own, nil), e.applicants())
	for _, ref := range slices.SortedFunc(maps.Keys(e.objects), compareRefs) {
		if registers(ref.Kind) {
			if old.misfits[ref] != e.reg.misfits[ref] {
				e.decideAgain(e.objects[ref], "register")
			}
		}
	}
	for _, name := range sortedKeys(e.reg.kinds) {
		if old.kinds[name].signature != e.reg.kinds[name].signature {
			e.recompose(name)
		}
	}
	return e.reg
}

// recompose gives the objects of a kind what the kind is now.
func (e *engine) recompose(name string) {
	kind := e.reg.kinds[name].kind
	e.kinds[name] = &kind
	_, own := e.own[name]
	for _, t := range e.objects {
		if t.ref.Kind != name {
			continue
		}
		if listening := len(t.kind.Graph.Listening())+len(kind.Graph.Listening()) > 0; own || listening {
			t.warm = nil // its defaults may be others now, or what steps read of it
		}
		if t.kind = e.kinds[name]; !t.unseen {
			e.mark(t.ref)
		}
	}
	e.sortQueue()
	if !own {
		return
	}
	for _, o := range e.c.journal.state.Objects(name) {
		e.changed(o.Ref())
	}
}

// tables is the catalog of the kinds that there are: a Kind is, or it was deleted while a
// partition kept objects of its kind from being seen.
func (e *engine) tables(own map[string]ownKind, fresh []applicant) *api.Catalog {
	var tables []api.Kind
	for _, name := range sortedKeys(own) {
		made := slices.ContainsFunc(fresh, func(a applicant) bool { return a.object.Key == api.KindObject(name) })
		if made || e.alive(name) || len(e.list(name)) > 0 {
			tables = append(tables, own[name].table)
		}
	}
	return api.Builtin().With(tables...)
}

// stays keeps from its end what others keep from it, which no step tells of.
func (e *engine) stays(t *tracked, eval *lifecycle.Evaluation) {
	switch {
	case t.ref.Kind == kindKind && eval.Gone:
		e.keepsObjects(t, eval)
	case t.ref.Kind == "Machine" && eval.Goal == api.TargetDrained && eval.Verdict == lifecycle.Converged:
		e.keepsPods(t, eval)
	}
}

// keepsObjects keeps a Kind that was deleted in sight while a partition has left it objects:
// who wants to be rid of them has to see what they are.
func (e *engine) keepsObjects(t *tracked, eval *lifecycle.Evaluation) {
	var left []string
	for _, o := range e.list(api.OwnKind(t.ref.Name)) {
		left = append(left, o.Key.String())
	}
	if len(left) == 0 {
		return
	}
	eval.Gone, eval.Verdict = false, lifecycle.Blocked
	for i := range eval.Steps {
		if s := &eval.Steps[i]; s.Step == "register" {
			s.State, s.Message = lifecycle.StateBlocked, "it was deleted while a partition kept "+counted(left)+" from being seen; delete what is left"
		}
	}
}

// alive reports whether the Kind that defines a kind is there and not deleted.
func (e *engine) alive(name string) bool {
	t := e.objects[crdt.Ref(api.KindObject(name))]
	return t != nil && t.snap() != nil && !t.snap().Deleted
}

// Catalog holds the tables of all kinds that there are.
func (c *Core) Catalog() *api.Catalog { return c.engine.reg.catalog }

// staying lists the objects of a kind that are not being deleted.
func (e *engine) staying(kind string) []*tracked {
	var list []*tracked
	for _, o := range e.list(kind) {
		if !o.Deleted {
			list = append(list, e.objects[crdt.Ref(o.Key)])
		}
	}
	return list
}
