package peer

import (
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// A life that lost its name to a concurrent creation keeps its results, and gets the name
// after all when the other is deleted by somebody who did not know of it, or when the
// creation of the other counts no more. What it had on machines was taken down meanwhile. A
// step on a machine is done again there, since a peer looks at what it made. A step on no
// machine in particular is believed to be done by whoever executes it, so that who took it
// down has to say so in the results of the life itself, whether that has the name or not.

// disclaimed is what this peer said last of a step that it took down for a life without
// the name.
type disclaimed struct {
	id      string // of the life
	attempt uint64
}

// disclaim writes into the results of a life that what a step of it made is there no more.
func (e *engine) disclaim(t *tracked, id string, step *lifecycle.Step) {
	o := e.life(t.ref, id)
	if o == nil || step.Where == lifecycle.OnMachine {
		return
	}
	r, ok := o.Register(step.Name)
	if !ok || r.Phase == crdt.PhaseUndone {
		return
	}
	now := e.c.now.UnixMilli()
	reg := crdt.Register{
		Attempt: o.NextAttempt(step.Name), Phase: crdt.PhaseUndone, Executor: e.c.self.ID, Reads: r.Reads,
		Queued: now, Ready: now, Started: now, Finished: now,
	}
	put(&t.disclaimed, step.Name, disclaimed{id, reg.Attempt})
	e.appendTo(o, t, step.Name, reg)
}

// goOnDisclaiming: a life got its name back while this peer was at taking it down, or
// another peer did a step for it again before it could hear of that. Whoever did it may
// have done so before the end of the taking down.
func (e *engine) goOnDisclaiming(t *tracked) {
	if t.life == 0 {
		return
	}
	id := t.snap().ID
	for _, name := range sortedKeys(e.effects.byID[id]) {
		ef := e.effects.byID[id][name]
		if _, busy := t.running[name]; busy || !ef.Back {
			continue
		}
		ef.Back = false
		e.effects.keep(e.c, id, name, ef)
		if step, ok := t.kind.Graph.Step(name); ok {
			e.disclaim(t, id, &step)
		}
	}
	for _, name := range sortedKeys(t.disclaimed) {
		r, said := t.snap().Results[name], t.disclaimed[name]
		switch step, ok := t.kind.Graph.Step(name); {
		case said.id != id:
		case !ok || r.Attempt > said.attempt:
			delete(t.disclaimed, name) // whoever wrote that had heard
		case r.Executor != e.c.self.Name:
			e.disclaim(t, id, &step)
		}
	}
}

// life finds an incarnation of a name by the short form of its identity.
func (e *engine) life(ref crdt.Ref, id string) *crdt.Object {
	for _, o := range e.c.journal.state.Incarnations(ref) {
		if shortID(o) == id {
			return o
		}
	}
	return nil
}
