package peer

import (
	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Probed is what the probes of a container on this machine newly say of it. It is
// never replicated: only what the step ready makes of it is.
type Probed struct {
	Key       api.Key
	ID        string // the object's identity
	Container string
	Health    loops.Health
}

func (Probed) event() {}

// readyStep decides by what probes report.
const readyStep = "ready"

// probed keeps a report, and has the step ready decide again.
func (e *engine) probed(p Probed) {
	t, ok := e.objects[crdt.Ref(p.Key)]
	if !ok || t.snap() == nil || t.snap().ID != p.ID {
		return
	}
	if e.health[p.ID] == nil {
		e.health[p.ID] = map[string]Probed{}
	}
	if e.health[p.ID][p.Container] == p {
		return
	}
	e.health[p.ID][p.Container] = p
	e.decideAgain(t, readyStep)
}

// decideAgain has a step that decides look at what no field tells.
func (e *engine) decideAgain(t *tracked, step string) {
	put(&t.again, step, true)
	e.mark(t.ref)
}

// Health returns what the probes of a container on this machine last said.
func (v *view) Health(id, container string) (loops.Health, bool) {
	p, ok := v.c.engine.health[id][container]
	return p.Health, ok
}

// Here lists the objects that are placed on this machine, sorted by key. They must not
// be changed.
func (c *Core) Here() []*lifecycle.Object {
	var list []*lifecycle.Object
	for _, t := range c.engine.placed.sorted(c.self.Name) {
		if o := t.shown(); o != nil {
			list = append(list, o)
		}
	}
	return list
}
