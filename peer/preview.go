package peer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// preview is what the kinds would be once a change set is written, if it writes Kinds or
// Steps.
type preview struct {
	*registration
	edits []Edit
}

// preview looks ahead. What is new counts as the youngest: what fits so fits beside all
// others.
func (e *engine) preview(edits []Edit) (preview, *api.Error) {
	p := preview{registration: e.registered(), edits: edits}
	var fresh []applicant
	for i, edit := range edits {
		if registers(edit.Key.Kind) {
			a := e.applying(edit)
			if a.born == 0 {
				a.born = math.MaxUint64 - uint64(len(edits)-i)
			}
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return p, nil
	}
	all := slices.DeleteFunc(e.applicants(), func(a applicant) bool {
		return slices.ContainsFunc(fresh, func(f applicant) bool { return f.object.Key == a.object.Key })
	})
	own := map[string]ownKind{}
	for name, k := range e.own {
		own[name] = k
	}
	for _, a := range fresh {
		if k, ok := defineOwn(a.object); ok && a.object.Key.Kind == kindKind && !a.object.Deleted {
			own[k.table.Name] = k
		}
	}
	live := slices.DeleteFunc(slices.Clone(fresh), func(a applicant) bool { return a.object.Deleted })
	p.registration = register(e.c.cfg.Kinds, own, e.tables(own, live), append(all, fresh...))
	return p, e.fit(p, fresh)
}

// applying is a Kind, a Target or a Step as an edit would leave it; one that is new is born
// at 0.
func (e *engine) applying(edit Edit) applicant {
	ref := crdt.Ref(edit.Key)
	o := &lifecycle.Object{Key: edit.Key, ID: "new", Deleted: edit.Kind == EditDelete}
	current, born := api.Fields{}, uint64(0)
	if old, ok := e.c.writes.live(ref); ok {
		current, o.ID, born = api.Fields(old.Values()), shortID(old), e.bornAt(ref)
	}
	wanted := current.Clone()
	if edit.Kind != EditDelete {
		applyOps(wanted, opsOf(editsOf(edit, current)))
	}
	o.Fields = e.kindNamed(edit.Key.Kind).Effective(wanted)
	return applicant{o, born}
}

// fit says why what is written would not be part of the lifecycles, and what stands in the
// way of a Kind that changes or goes.
func (e *engine) fit(p preview, fresh []applicant) *api.Error {
	for _, a := range fresh {
		key := a.object.Key
		if a.object.Deleted {
			if fault := e.removable(p, key); fault != nil {
				return fault
			}
			continue
		}
		if len(e.kindNamed(key.Kind).Validate(a.object.Fields)) > 0 {
			continue // that is said with the place of each problem
		}
		if why := p.misfits[crdt.Ref(key)]; why != "" {
			return api.Errorf(api.LoopRefused, "%s does not fit, so nothing was changed: %s", key, why)
		}
		if key.Kind == kindKind {
			if fault := e.changeable(p, key); fault != nil {
				return fault
			}
		}
	}
	if fault := e.leavesOut(p, fresh); fault != nil {
		return fault
	}
	return e.strands(p)
}

// strands refuses to take a target away from objects that are to be at it.
func (e *engine) strands(p preview) *api.Error {
	for _, kind := range sortedKeys(e.reg.kinds) {
		now, next := e.reg.kinds[kind].kind.Graph.Goals(), p.kinds[kind].kind.Graph
		if next == nil {
			continue
		}
		gone := slices.DeleteFunc(now, func(goal string) bool { return slices.Contains(next.Goals(), goal) })
		if len(gone) == 0 {
			continue
		}
		var left []string
		for _, t := range e.staying(kind) {
			if !p.writes(api.Key(t.ref)) && slices.Contains(gone, t.snap().Fields.String(jobTarget)) {
				left = append(left, api.Key(t.ref).String())
			}
		}
		if len(left) > 0 {
			return api.Errorf(api.Invalid, "%s would be left without the target that they are to be at (%s), so nothing was changed; switch them to another first", counted(left), listed(gone))
		}
	}
	return nil
}

// leavesOut refuses to write what would leave something else out of the lifecycles: a Step
// that requires another, say.
func (e *engine) leavesOut(p preview, fresh []applicant) *api.Error {
	for _, ref := range slices.SortedFunc(maps.Keys(p.misfits), compareRefs) {
		_, before := e.reg.misfits[ref]
		written := slices.ContainsFunc(fresh, func(a applicant) bool { return a.ref() == ref })
		if !before && !written {
			return api.Errorf(api.LoopRefused, "this would leave %s out, so nothing was changed: %s", api.Key(ref), p.misfits[ref])
		}
	}
	return nil
}

// removable refuses to take a Kind away from its objects.
func (e *engine) removable(p preview, key api.Key) *api.Error {
	if key.Kind != kindKind {
		return nil
	}
	var left []string
	for _, t := range e.staying(api.OwnKind(key.Name)) {
		if !p.deletes(api.Key(t.ref)) {
			left = append(left, api.Key(t.ref).String())
		}
	}
	if len(left) == 0 {
		return nil
	}
	return api.Errorf(api.Invalid, "%s still has %s; delete them first, then the Kind", key, counted(left))
}

func (p preview) deletes(key api.Key) bool {
	return slices.ContainsFunc(p.edits, func(e Edit) bool { return e.Key == key && e.Kind == EditDelete })
}

func (p preview) writes(key api.Key) bool {
	return slices.ContainsFunc(p.edits, func(e Edit) bool { return e.Key == key })
}

// counted names a few of many.
func counted(names []string) string {
	const most = 3
	text := fmt.Sprintf("%d objects", len(names))
	if len(names) == 1 {
		text = "1 object"
	}
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += ", …"
	}
	return text + " (" + list + ")"
}

// changeable refuses a change of a Kind that would make its objects invalid, or forget a
// step that has made something outside.
func (e *engine) changeable(p preview, key api.Key) *api.Error {
	name := api.OwnKind(key.Name)
	next := p.kinds[name].kind
	var bad, first []string
	for _, t := range e.staying(name) {
		if p.writes(api.Key(t.ref)) {
			continue
		}
		o, _ := e.c.journal.state.Object(t.ref)
		if problems := next.Validate(api.Fields(o.Values())); len(problems) > 0 {
			bad = append(bad, api.Key(t.ref).String())
			first = append(first, problems[0].String())
		}
		for step, r := range t.snap().Results {
			old, acts := t.kind.Graph.Step(step)
			if _, kept := next.Graph.Step(step); !kept && acts && old.Undo != nil && r.Phase != lifecycle.PhaseNever && r.Phase != lifecycle.PhaseUndone {
				return api.Errorf(api.Invalid, "%s can't do without the step %s, which has to be taken back first: %s has done it; delete the objects, or keep the step", key, step, api.Key(t.ref))
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return api.Errorf(api.SpecInvalid, "by this %s %s would no longer be valid, so nothing was changed; of the first: %s", key, counted(bad), first[0])
}
