package peer

import (
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// view is what one evaluation sees of the cluster; it notes what it depended on.
type view struct {
	c      *Core
	asked  []string
	wake   time.Time
	topics []string
}

var _ loops.Surroundings = (*view)(nil)

func (v *view) Now() time.Time { return v.c.now }

func (v *view) Random() uint64 { return v.c.rand() }

func (v *view) Member(machine string) lifecycle.Member {
	v.topics = append(v.topics, v.c.engine.memberTopic(machine))
	return v.c.memberView(machine)
}

func (v *view) Belongs(machine string) bool {
	_, ok := v.c.idOf(machine)
	return ok
}

func (v *view) Objects(kind string) []*lifecycle.Object { return v.c.engine.list(kind) }

func (v *view) Object(key api.Key) (*lifecycle.Object, bool) {
	t, ok := v.c.engine.objects[crdt.Ref(key)]
	if !ok || t.snap() == nil {
		return nil, false
	}
	return t.snap(), true
}

func (v *view) Reserved(machine string, except api.Key) lifecycle.Reservation {
	return v.c.engine.reserved(machine, crdt.Ref(except))
}

func (v *view) Placed(machine string, except api.Key) int {
	e := v.c.engine
	n := len(e.placed[machine])
	if t := e.objects[crdt.Ref(except)]; t != nil && t.placed == machine {
		n--
	}
	return n
}

func (v *view) Siblings(of api.Key) map[string]int {
	e := v.c.engine
	t := e.objects[crdt.Ref(of)]
	if t == nil || t.parent == "" {
		return nil
	}
	on := map[string]int{}
	for other := range e.children[t.parent] {
		if other != t && other.placed != "" {
			on[other.placed]++
		}
	}
	return on
}

func (v *view) Held(exceptID string) lifecycle.Reservation { return v.c.engine.held.sum(exceptID) }

func (v *view) Routes(except string) api.Fields {
	r := &v.c.engine.routes
	if r.of == nil {
		r.of, r.but = loops.RoutesOf(v, v.c.engine.movedPods()), map[string]api.Fields{}
	}
	if r.but[except] == nil {
		r.but[except] = loops.RoutesBut(r.of, except)
	}
	return r.but[except]
}

func (v *view) Ask(machine string) {
	if !slices.Contains(v.asked, machine) {
		v.asked = append(v.asked, machine)
	}
}

func (v *view) WakeAt(t time.Time) { v.wake = earliest(v.wake, t) }

// Topics of the reverse index: what an object waits for, and is looked at again
// when it changes.
func (e *engine) memberTopic(machine string) string {
	topic, ok := e.members[machine]
	if !ok {
		topic = "member/" + machine
		e.members[topic[len("member/"):]] = topic
	}
	return topic
}

func kindTopic(kind string) string { return "kind/" + kind }
