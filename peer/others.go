package peer

import (
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

var _ loops.Others = (*view)(nil)

// objectTopic is the topic of one object: whatever waits for it is looked at again when it
// changes.
func objectTopic(ref crdt.Ref) string { return "object/" + api.Key(ref).String() }

// objectTopics are those of the objects that the keys, as written in a spec, mean.
func (e *engine) objectTopics(keys []string) (topics []string) {
	for _, key := range keys {
		if ref, ok := e.refOf(key); ok {
			topics = append(topics, objectTopic(ref))
		}
	}
	return topics
}

func (e *engine) refOf(key string) (crdt.Ref, bool) {
	k, err := e.reg.catalog.ParseKey(key)
	return crdt.Ref(k), err == nil
}

// Standing tells how an object stands, as this peer sees it.
func (v *view) Standing(key string) (s loops.Standing) {
	e := v.c.engine
	ref, ok := e.refOf(key)
	t := e.objects[ref]
	if !ok || t == nil || t.life == 0 || t.gone {
		return s
	}
	s = loops.Standing{Exists: true, Verdict: e.verdictNow(t), Goal: e.goal(t)}
	for _, r := range loops.Required(t.snap().Fields) {
		if other, ok := e.refOf(r); ok {
			s.Requires = append(s.Requires, api.Key(other).String())
		}
	}
	s.Up = s.Verdict == lifecycle.Converged && !t.kind.down(s.Goal)
	return s
}

// Nearest finds the key that resembles the given one most.
func (v *view) Nearest(key, except string) string {
	ref, ok := v.c.engine.refOf(key)
	if !ok {
		return ""
	}
	var keys []string
	for _, t := range v.c.engine.objects {
		if k := api.Key(t.ref).String(); t.ref.Kind == ref.Kind && t.life != 0 && !t.gone && k != except {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return api.Nearest(api.Key(ref).String(), keys)
}

// down: an object at that goal does not do its work. It does where it is running, or, of a
// kind that has no such point, where everything is done that ready takes.
func (k *Kind) down(goal string) bool {
	work := api.TargetRunning
	if !k.Graph.Takes(work, work) { // there is none
		work = api.TargetReady
	}
	return goal == lifecycle.Deleted || goal == api.TargetStopped || goal == api.TargetDrained || !k.Graph.Takes(goal, work)
}

// bindings bounds how many objects a chain of bindings leads through.
const bindings = 8

// goalOf is where an object with these fields is to be. What is bound to an object that is
// down, or not there, is stopped, whatever its own target.
func (e *engine) goalOf(kind *Kind, f api.Fields, depth int) string {
	goal := kind.Goal(f)
	if !kind.down(goal) && slices.Contains(kind.Graph.Goals(), api.TargetStopped) && e.downOf(f, depth) != "" {
		return api.TargetStopped
	}
	return goal
}

// downOf is the first object that the fields bind to and that is down: its key as written,
// or "". A circle of bindings holds nothing down: the requirement that each binding is as
// well says what is wrong.
func (e *engine) downOf(f api.Fields, depth int) string {
	if depth > bindings {
		return ""
	}
	for _, key := range loops.Bound(f) {
		ref, ok := e.refOf(key)
		t := e.objects[ref]
		if !ok || t == nil || t.life == 0 || t.gone || t.snap().Deleted || t.kind.down(e.goalOf(t.kind, t.snap().Fields, depth+1)) {
			return key
		}
	}
	return ""
}

// WaitsFor is the key of the object that a pod requires and waits for; "" if it does not.
func (s Seen) WaitsFor() string { return loops.WaitsFor(s.Object.Status()) }

// BoundDown is the object that holds a bound one down, and how it stands; "" if none does.
func (c *Core) BoundDown(key api.Key) (other, how string) {
	t, ok := c.engine.objects[crdt.Ref(key)]
	if !ok || t.life == 0 || t.kind.down(t.kind.Goal(t.snap().Fields)) {
		return "", ""
	}
	if other = c.engine.downOf(t.snap().Fields, 0); other == "" {
		return "", ""
	}
	s := (&view{c: c}).Standing(other)
	switch {
	case !s.Exists:
		return other, "does not exist"
	case s.Goal == lifecycle.Deleted:
		return other, "is being deleted"
	}
	return other, "is " + s.Goal
}
