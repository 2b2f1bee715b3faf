package peer

import (
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// impact tells what writing a Kind or a Step, or deleting it, means for the objects that
// are there: which steps would run for how many of them, and when.
func (c *Core) impact(next preview, edit Edit) []string {
	kind := ""
	switch edit.Key.Kind {
	case kindKind:
		kind = api.OwnKind(edit.Key.Name)
	case kindStep, kindTarget:
		kind = c.engine.applying(edit).object.Fields.String("spec.kind")
	}
	if kind == "" {
		return nil
	}
	objects := c.engine.staying(kind)
	what, ok := next.catalog.KindByName(kind)
	if !ok {
		what.Plural = strings.ToLower(kind) + "s"
	}
	if len(objects) == 0 {
		return []string{"there are no " + what.Plural + " yet"}
	}
	t := tally{next: next.kinds[kind], counts: map[string]int{}}
	for _, o := range objects {
		t.add(c, o)
	}
	return t.sentences(len(objects), what.Plural)
}

// tally counts objects by what becomes of a step.
type tally struct {
	next   composition
	order  []string
	counts map[string]int
}

func (t *tally) note(what string) {
	if t.counts[what] == 0 {
		t.order = append(t.order, what)
	}
	t.counts[what]++
}

func (t *tally) add(c *Core, o *tracked) {
	after := *o.snap()
	folded, _ := c.journal.state.Object(o.ref)
	after.Fields = t.next.kind.Effective(api.Fields(folded.Values()))
	after.Left = left(&t.next.kind, folded)
	v := &planView{view: view{c: c}, pod: o.ref}
	derive := func(obj *lifecycle.Object) *lifecycle.Object {
		v.machine = c.engine.machineOf(o.ref, obj)
		if t.next.kind.Derive == nil {
			return obj
		}
		return c.engine.withDerived(obj, t.next.kind.Derive(obj, v))
	}
	before := *o.snap()
	for _, s := range t.next.kind.Graph.Plan(&o.hand().memo, &before, &after, t.next.kind.Goal(after.Fields), c.engine.env(o, o.snap()), v, derive) {
		h, hooked := t.next.hooks[s.Step]
		_, ran := o.snap().Results[s.Step]
		switch {
		case s.Action == "run" && hooked && h.NextRun && !ran && c.engine.editedAt(o.ref, h.Step.Authors) < h.since:
			t.note(s.Step + " runs with the next edit of")
		case s.Action == "run":
			t.note(s.Step + " runs now for")
		case s.Action == "rerun":
			t.note(s.Step + " runs again for")
		case s.Action == "undo":
			t.note(s.Step + " is taken back for")
		}
	}
}

func (t *tally) sentences(of int, plural string) []string {
	var list []string
	for _, what := range t.order {
		list = append(list, fmt.Sprintf("%s %d of %d %s", what, t.counts[what], of, plural))
	}
	if len(list) == 0 {
		list = append(list, fmt.Sprintf("none of the %d %s runs anything because of it", of, plural))
	}
	slices.Sort(list)
	return list
}
