package peer

import (
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Fields by which a child knows its parent. The parent's loop writes them once.
const (
	parentObject = "spec.parent.object"
	parentID     = "spec.parent.id"
	parentSlot   = "spec.parent.slot"
)

// relate keeps the index of children, and has a parent look at a child that changed.
func (e *engine) relate(t *tracked) {
	parent := ""
	if t.snap() != nil {
		parent = t.snap().Fields.String(parentObject)
	}
	if parent != t.parent {
		parent = e.names.One(parent)
		e.children.remove(t.parent, t)
		e.children.add(parent, t)
		t.parent = parent
	}
	e.wakeParent(t)
}

func (e *engine) wakeParent(t *tracked) {
	if t.parent == "" {
		return
	}
	if key, err := api.KeyFromString(t.parent); err == nil {
		e.mark(crdt.Ref(key))
	}
}

// childrenOf lists the children that a loop made for one incarnation and that are still
// there, by key.
func (e *engine) childrenOf(key api.Key, id, loop string) []*tracked {
	var list []*tracked
	for _, t := range e.children.sorted(key.String()) {
		if t.life != 0 && !t.gone && t.snap().Fields.String(parentID) == id && e.madeBy(t) == loop {
			list = append(list, t)
		}
	}
	return list
}

// madeBy is the loop that made an object, "" for people.
func (e *engine) madeBy(t *tracked) string {
	o, ok := e.c.journal.state.Object(t.ref)
	if !ok {
		return ""
	}
	loop, _ := strings.CutPrefix(o.Creator(), loopAuthor)
	return loop
}

// loopAuthor begins the author of what a loop writes.
const loopAuthor = "loop:"

// Children tells how the children that a loop made for an object stand, as any peer with
// the same replicated state would say.
func (v *view) Children(parent *lifecycle.Object, loop string) []loops.ChildState {
	var list []loops.ChildState
	for _, t := range v.c.engine.childrenOf(parent.Key, parent.ID, loop) {
		list = append(list, v.c.engine.childState(t, v))
	}
	return list
}

// childState judges a child by what is replicated alone: nothing that only this peer
// knows may make a parent's result stale.
func (e *engine) childState(t *tracked, v *view) loops.ChildState {
	snap := e.derive(t, v)
	never := func(string) bool { return false }
	eval := t.kind.Graph.Evaluate(snap, e.goal(t), lifecycle.Env{
		Executor: e.executor(t), Machine: e.machineOf(t.ref, snap), Member: v.Member, Removed: e.removed, Now: e.c.now,
		Running: func(string) (lifecycle.Running, bool) { return lifecycle.Running{}, false },
		Adopt:   never, Effects: never, MayRetry: never,
	})
	if t.ref.Kind != "Pod" {
		converged := eval.Verdict == lifecycle.Converged && !snap.Deleted
		return loops.ChildState{Object: snap, Settled: converged, Ready: converged}
	}
	running, _ := eval.Step(api.TargetRunning)
	ready, _ := eval.Step(readyStep)
	s := loops.ChildState{Object: snap, Settled: running.State == lifecycle.StateDone && eval.Silent == ""}
	s.Ready = s.Settled && ready.State == lifecycle.StateDone && snap.Results[readyStep].Outputs.Bool("status.ready")
	return s
}

func (e *engine) removed(machine string) bool {
	_, ok := e.c.idOf(machine)
	return !ok
}

// worstChild is the child that holds its parent up most.
func (e *engine) worstChild(t *tracked, step string) (key string, verdict lifecycle.State) {
	order := map[lifecycle.State]int{lifecycle.Converged: 1, lifecycle.Progressing: 2, lifecycle.Failed: 3, lifecycle.Blocked: 4}
	for _, child := range e.childrenOf(api.Key(t.ref), t.snap().ID, t.kind.Graph.StepOwner(step)) {
		if v := e.verdictOf(child); order[v] > order[verdict] {
			key, verdict = api.Key(child.ref).String(), v
		}
	}
	return key, verdict
}

// manage lets a step say what becomes of its children. When that changes one of them,
// the step is called again, in the same turn, before its result is written: the result
// tells of a state in which there was nothing more to do.
func (e *engine) manage(t *tracked, run lifecycle.Run, v *view) {
	out, children, err := run.Step.Manage(v, run.Inputs)
	changed := e.settleDoubles(t, run.Step)
	for _, child := range children {
		did, fault := e.writeChild(t, run.Step, child)
		if fault != nil {
			err = fault
			break
		}
		changed = changed || did
	}
	if changed {
		e.mark(t.ref)
		return
	}
	e.write(t, run.Step, e.outcome(t, run.Step, run.Reads, out, err))
}

// setChildren makes the children of an acting step what it says, and reports what is wrong with
// them: nothing is written then.
func (e *engine) setChildren(t *tracked, step *lifecycle.Step, children []lifecycle.Child) error {
	kind := e.kindNamed(step.Children)
	for i := range children {
		fields, problems := e.reg.catalog.Normalize(step.Children, children[i].Fields)
		if len(problems) == 0 {
			problems = kind.Validate(fields)
		}
		if len(problems) > 0 {
			return &lifecycle.Error{Code: api.SpecInvalid, Message: fmt.Sprintf("loop %s asks for child %d, which is not valid: %s", t.kind.Graph.StepOwner(step.Name), children[i].Slot, problems[0])}
		}
		children[i].Fields = fields
	}
	e.settleDoubles(t, step)
	for _, old := range e.childrenOf(api.Key(t.ref), t.snap().ID, t.kind.Graph.StepOwner(step.Name)) {
		if !slices.ContainsFunc(children, func(c lifecycle.Child) bool { return c.Key == api.Key(old.ref) }) {
			children = append(children, lifecycle.Child{Key: api.Key(old.ref), Delete: true, Note: "its loop does not want it any more"})
		}
	}
	for _, child := range children {
		if _, err := e.writeChild(t, step, child); err != nil {
			return err
		}
	}
	return nil
}

// writeChild makes, changes or deletes one child, and reports whether it had to.
func (e *engine) writeChild(t *tracked, step *lifecycle.Step, child lifecycle.Child) (bool, error) {
	ref := crdt.Ref(child.Key)
	old, exists := e.c.writes.live(ref)
	ch := crdt.Change{Object: ref, Author: e.loopAuthor(t, step), Message: child.Note}
	current := api.Fields{}
	if exists {
		current = api.Fields(old.Values())
		ch.Incarnation, ch.Parents = old.ID(), old.Heads()
	}
	mine := current.String(parentObject) == api.Key(t.ref).String() && current.String(parentID) == t.snap().ID
	switch {
	case exists && !mine:
		return false, &lifecycle.Error{Code: api.AlreadyExists, Wait: true, Message: fmt.Sprintf(
			"%s was made by %s and has the name that slot %d needs; delete it, or rename %s", child.Key, old.Creator(), child.Slot, api.Key(t.ref))}
	case child.Delete && !exists, !child.Delete && child.Fields == nil:
		return false, nil
	case child.Delete:
		ch.Ops = []crdt.Op{{Kind: crdt.OpDelete}}
	default:
		ch.Ops = e.childOps(t, child, current, exists)
	}
	if len(ch.Ops) == 0 {
		return false, nil
	}
	if fault := legible(&ch); fault != nil {
		return false, &lifecycle.Error{Code: fault.Code, Message: fmt.Sprintf("loop %s asks for child %d, which is too large: %s", t.kind.Graph.StepOwner(step.Name), child.Slot, fault.Message)}
	}
	e.c.journal.write(ch)
	return true, nil
}

func (e *engine) loopAuthor(t *tracked, step *lifecycle.Step) string {
	return loopAuthor + t.kind.Graph.StepOwner(step.Name)
}

// childOps turns the child's spec into what is wanted; its parent is written once.
func (e *engine) childOps(t *tracked, child lifecycle.Child, current api.Fields, exists bool) []crdt.Op {
	wanted := child.Fields.Clone()
	wanted[parentObject] = api.Str(api.Key(t.ref).String())
	wanted[parentID] = api.Str(t.snap().ID)
	wanted[parentSlot] = api.Int(child.Slot)
	ops := opsOf(api.EditsForApply(current, wanted))
	if !exists {
		ops = append([]crdt.Op{{Kind: crdt.OpCreate}}, ops...)
	}
	return ops
}

// settleDoubles deletes what other executors of this loop created under the same names
// while a partition kept them apart. One of each name holds it; the others never run.
func (e *engine) settleDoubles(t *tracked, step *lifecycle.Step) (changed bool) {
	author := e.loopAuthor(t, step)
	for _, child := range e.childrenOf(api.Key(t.ref), t.snap().ID, t.kind.Graph.StepOwner(step.Name)) {
		holder, ok := e.c.journal.state.Object(child.ref)
		if !ok {
			continue
		}
		for _, loser := range holder.Losers() {
			if loser.Creator == author && e.deleteLife(child.ref, loser.ID, author, "made twice during a partition") {
				changed = true
			}
		}
	}
	return changed
}

// deleteLife deletes one incarnation of a name.
func (e *engine) deleteLife(ref crdt.Ref, id crdt.ID, author, note string) bool {
	for _, o := range e.c.journal.state.Incarnations(ref) {
		if o.ID() == id && !o.Deleted() {
			e.c.journal.write(crdt.Change{
				Object: ref, Incarnation: id, Parents: o.Heads(), Author: author, Message: note, Ops: []crdt.Op{{Kind: crdt.OpDelete}},
			})
			return true
		}
	}
	return false
}

// disown takes a managing step back: its children are deleted, and when none is left
// the step is undone.
func (e *engine) disown(t *tracked, run lifecycle.Run) {
	left := e.childrenOf(api.Key(t.ref), t.snap().ID, t.kind.Graph.StepOwner(run.Step.Name))
	for _, child := range left {
		e.deleteChild(child, e.loopAuthor(t, run.Step), api.Key(t.ref).String()+" takes its children down")
	}
	if len(left) == 0 {
		e.write(t, run.Step, crdt.Register{Phase: crdt.PhaseUndone, Reads: run.Reads})
	}
}

func (e *engine) deleteChild(child *tracked, author, note string) {
	if o, ok := e.c.writes.live(child.ref); ok {
		e.deleteLife(child.ref, o.ID(), author, note)
	}
}

// reap deletes what is left of an incarnation of the parent that is over: children that
// somebody made while a partition kept the parent's deletion from them. A parent that
// is not known here (yet) keeps its children.
func (e *engine) reap(t *tracked) {
	if len(e.children) == 0 {
		return
	}
	children := e.children.sorted(api.Key(t.ref).String())
	if len(children) == 0 || e.executor(t) != e.c.self.Name {
		return
	}
	for _, child := range children {
		if child.snap() == nil || child.snap().Deleted {
			continue
		}
		if o, ok := e.c.journal.state.Object(child.ref); ok && e.over(t.ref, child.snap().Fields.String(parentID)) {
			e.deleteChild(child, o.Creator(), api.Key(t.ref).String()+" is gone")
		}
	}
}

// over reports whether the incarnation of a name is known, and deleted or without the
// name.
func (e *engine) over(ref crdt.Ref, id string) bool {
	o := e.life(ref, id)
	return o != nil && (o.Deleted() || !o.HoldsName())
}
