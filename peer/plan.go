package peer

import (
	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// ObjectPlan is what an edit would do to one object.
type ObjectPlan struct {
	Outcome Outcome
	Diff    []api.Edit
	Steps   []lifecycle.PlanStep
	// Concerns says what a Kind or a Step means for the objects that are there.
	Concerns []string
	// From and To are the machines before and after; equal where the object stays.
	From, To string
}

// Plan tells what an author's change set would do, and does nothing.
func (c *Core) Plan(author string, edits []Edit) ([]ObjectPlan, *api.Error) {
	var plans []ObjectPlan
	edits = c.writes.expand(edits)
	next, err := c.engine.preview(edits)
	if err != nil {
		return nil, err
	}
	for _, edit := range edits {
		ch, outcome, err := c.writes.prepare(next, edit)
		if err != nil {
			return nil, err
		}
		p := ObjectPlan{Outcome: outcome}
		c.planOne(&p, next, edit, author, ch)
		if outcome.Result != "unchanged" {
			p.Concerns = c.impact(next, edit)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func (c *Core) planOne(p *ObjectPlan, next preview, edit Edit, author string, ch crdt.Change) {
	e, kind := c.engine, next.kinds[ch.Object.Kind].kind
	t := e.objects[ch.Object]
	if t == nil {
		t = &tracked{e: e, ref: ch.Object, kind: &kind}
	}
	before := t.snap()
	if before == nil || outcomeIsNew(p.Outcome) {
		before = &lifecycle.Object{Key: edit.Key, ID: "new", Fields: api.Fields{}, Results: map[string]lifecycle.Result{}}
	}
	written, after := api.Fields{}, *before
	if o, ok := c.writes.live(ch.Object); ok {
		written, after.Left = api.Fields(o.Values()), left(&kind, o)
	}
	wanted := written.Clone()
	applyOps(wanted, ch.Ops)
	p.Diff = api.Diff(written, wanted)
	after.Fields = kind.Effective(wanted)
	after.Rev++
	for step, authors := range kind.Graph.Listening() {
		if authors.Has(author) {
			put(&after.Left, step, after.Fields)
		}
	}
	goal := e.goalOf(&kind, after.Fields, 0)
	if edit.Kind == EditDelete {
		goal = lifecycle.Deleted
	}
	env := e.env(t, before)
	p.From = env.Machine
	v := &planView{view: view{c: c}, pod: ch.Object}
	var known *lifecycle.Memo
	if t.life != 0 {
		known = &t.hand().memo
	}
	p.Steps = kind.Graph.Plan(known, before, &after, goal, env, v, func(o *lifecycle.Object) *lifecycle.Object {
		v.machine = e.machineOf(ch.Object, o)
		if kind.Derive == nil {
			return o
		}
		return e.withDerived(o, kind.Derive(o, v))
	})
	p.To = p.From
	for _, s := range p.Steps {
		if m, ok := s.Outputs["status.machine"]; ok {
			p.To = unquote(m)
		}
	}
}

// planView plans for whatever machine the pod would be on. Another machine's ledger
// is its own, so what is placed there stands for it.
type planView struct {
	view
	pod     crdt.Ref
	machine string
}

func (v *planView) Held(exceptID string) lifecycle.Reservation {
	if v.machine == v.c.self.Name {
		return v.view.Held(exceptID)
	}
	return v.c.engine.reserved(v.machine, v.pod)
}

func outcomeIsNew(o Outcome) bool { return o.Result == "created" }

func applyOps(fields api.Fields, ops []crdt.Op) {
	for _, op := range ops {
		switch op.Kind {
		case crdt.OpSet:
			fields[op.Path] = op.Value
		case crdt.OpUnset:
			delete(fields, op.Path)
		}
	}
}
