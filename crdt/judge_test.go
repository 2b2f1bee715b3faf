package crdt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRefusedRevsStayVisibleAndCount(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice", set("spec.a", "1"))
	bad := s.make(20, "user:mallory", s.named["c"].id, []ID{s.named["c"].id}, set("spec.a", "2")).change
	bad.Message = "forbidden"
	s.named["x"] = sealed(t, bad)
	s.add("y", 30, "user:alice", "c", "x", set("spec.b", "3"))
	s.add("l", 40, "loop:scheduler", "c", "c", set("spec.a", "4"))
	state := s.fold(rules())
	o, _ := state.Object(web)
	if got := s.summary(o); got != "spec.a=1 spec.b=3 heads=y rev=3" {
		t.Errorf("got %s", got)
	}
	if r, _ := o.Rev(s.named["x"].id); r.Number != 2 || r.Refused != "no role allows it" {
		t.Errorf("the refused rev shows as %+v", r)
	}
	refused := state.Refused(web)
	if len(refused) != 1 || refused[0].Change != s.named["l"].id || !strings.Contains(refused[0].Reason, "spec.a belongs to people, not to loop:scheduler") {
		t.Errorf("refused changes: %+v", refused)
	}
}

func TestRefusedCreationTakesNoName(t *testing.T) {
	s := newScene(t)
	s.create("n", 30, "user:alice", set("spec.a", "2"))
	s.create("c", 10, "user:mallory", set("lifecycle.turn", "1"))
	s.add("x", 40, "user:mallory", "c", "c", set("spec.a", "1"))
	state := s.fold(rules())
	if o, _ := state.Object(web); o.ID() != s.named["n"].id || len(o.Losers()) != 0 {
		t.Errorf("the refused creation counts")
	}
	o, ok := state.Incarnation(web, s.named["c"].id)
	if !ok || o.HoldsName() {
		t.Errorf("the refused creation is not shown, or holds the name")
	}
	if refused := state.Refused(web); len(refused) != 1 || refused[0].Change != s.named["x"].id {
		t.Errorf("an edit of what was never created: %+v", refused)
	}
}

func TestChildrenBelongToTheirParentsLoop(t *testing.T) {
	s := newScene(t)
	s.ref = Ref{"Child", "", "c"}
	s.create("c", 10, "loop:roll", set("spec.a", "1"))
	s.add("x", 20, "user:alice", "c", "c", set("spec.a", "2"))
	s.add("y", 30, "loop:roll", "c", "c", set("spec.b", "3"))
	s.add("z", 40, "user:alice", "c", "c", set("lifecycle.rerun", "1"))
	state := s.fold(rules())
	o, _ := state.Object(s.ref)
	if got := s.summary(o); got != "lifecycle.rerun=1 spec.a=1 spec.b=3 heads=y rev=2" {
		t.Errorf("got %s", got)
	}
	s.add("d", 50, "loop:roll", "c", "y", Op{Kind: OpDelete})
	s.add("e", 45, "loop:roll", "c", "y", set("spec.b", "4")) // a loop's edit revives nothing
	if o, _ := s.fold(rules()).Object(s.ref); !o.Deleted() {
		t.Error("the parent's loop can't delete its child")
	}
}

func TestMalformedChangesHaveNoEffect(t *testing.T) {
	c := (&writer{t: t, ref: web}).create(10, "user:alice")
	at, parents, edit := c.id, []ID{c.id}, []Op{set("spec.a", "1")}
	for part, bad := range map[string]Change{
		"does nothing":                {Author: "user:a", Incarnation: at, Parents: parents},
		"neither a user nor a loop":   {Author: "root", Incarnation: at, Parents: parents, Ops: edit},
		"create an incarnation or":    {Author: "user:a", Incarnation: at, Ops: []Op{{Kind: OpCreate}}},
		"or name one":                 {Author: "user:a", Ops: edit},
		"a creation has no parents":   {Author: "user:a", Parents: parents, Ops: []Op{{Kind: OpCreate}}},
		"a result stands alone":       {Author: "loop:scheduler", Incarnation: at, Parents: parents, Ops: []Op{set("spec.a", "1"), result("schedule", Register{Phase: PhaseDone})}},
		"names no parents":            {Author: "user:a", Incarnation: at, Ops: edit},
		"neither in spec nor in life": {Author: "user:a", Incarnation: at, Parents: parents, Ops: []Op{set("specs.a", "1")}},
		"to nothing":                  {Author: "user:a", Incarnation: at, Parents: parents, Ops: []Op{set("spec.a", "")}},
		"operation 77 is unknown":     {Author: "user:a", Incarnation: at, Parents: parents, Ops: []Op{{Kind: 77}}},
	} {
		bad.Object, bad.Level = web, 1
		e := sealed(t, bad)
		s := newState(t, rules())
		applyAll(s, c)
		before, _ := s.Object(web)
		a := s.Apply(e.change, e.id)
		if a.Outcome != Declined || !strings.Contains(a.Reason, part) {
			t.Errorf("%s: got %v because %q", part, a.Outcome, a.Reason)
		}
		if after, _ := s.Object(web); after != before || len(s.Refused(web)) != 1 {
			t.Errorf("%s: it changed the object, or is not shown", part)
		}
		if a := s.Apply(e.change, e.id); a.Outcome != Repeated {
			t.Errorf("%s: offered again it is %v", part, a.Outcome)
		}
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice")
	for i := range uint64(maxRefusals + 10) {
		s.add(fmt.Sprint(i), 100+i, "loop:roll", "c", "c", set("spec.a", "1"))
	}
	refused := s.fold(rules()).Refused(web)
	if len(refused) != maxRefusals || refused[0].HLC != 100+maxRefusals+9 {
		t.Errorf("%d refusals are kept, the latest of %d; want the latest %d", len(refused), refused[0].HLC, maxRefusals)
	}
}

func TestWaitingIsShownAndBounded(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	x := s.add("x", 20, "user:alice", "c", "c", set("spec.a", "1"))
	s.add("y", 30, "user:alice", "c", "x", set("spec.b", "1"))
	s.add("z", 40, "user:alice", "c", "y", set("spec.b", "2"))
	cfg := rules()
	cfg.MaxWaiting = 1
	state := newState(t, cfg)
	admits := func(names ...string) bool {
		var changes []Change
		var ids []ID
		for _, name := range names {
			changes, ids = append(changes, s.named[name].change), append(ids, s.named[name].id)
		}
		return state.Admits(changes, ids)
	}
	if !admits("y") {
		t.Error("there is room for one, and it is refused")
	}
	if a := state.Apply(s.named["y"].change, s.named["y"].id); a.Outcome != Waits {
		t.Fatalf("got %v, want it to wait", a.Outcome)
	}
	if admits("x") || !admits("c") || !admits("c", "x") {
		t.Error("a full room must refuse what would wait, and nothing else")
	}
	waiting := state.Waiting()
	if len(waiting) != 1 || waiting[0].Missing != c || waiting[0].For != "its object's creation" {
		t.Errorf("waiting: %+v", waiting)
	}
	applyAll(state, s.named["c"])
	if admits("z") || !admits("x") {
		t.Error("a full room must look at parents too")
	}
	if a := state.Apply(s.named["x"].change, x); a.Outcome != Took || a.Released != 1 {
		t.Errorf("got %v and %d released, want the one that waited", a.Outcome, a.Released)
	}
	if len(state.Waiting()) != 0 {
		t.Error("something waits still")
	}
}

// A change of one object that builds on the history of another is folded into neither,
// whichever arrives first: what its author may do is judged by the object that it names.
func TestAChangeThatBuildsOnAnotherObject(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	for name, parent := range map[string]ID{"edit": c, "later": s.add("x", 20, "user:alice", "c", "c", set("spec.a", "1"))} {
		stray := s.make(30, "user:mallory", c, []ID{parent}, set("spec.a", "2"))
		stray.change.Object.Name = "other"
		stray.id = stray.change.ID()
		there, back := newState(t, rules()), newState(t, rules())
		applyAll(there, s.named["c"], s.named["x"], stray)
		applyAll(back, stray, s.named["c"], s.named["x"])
		if dump(there) != dump(back) || there.Hash() != back.Hash() {
			t.Errorf("%s: the order decides:\n%s\n---\n%s", name, dump(there), dump(back))
		}
		if w := back.Waiting(); len(w) != 1 || w[0].Object != stray.change.Object {
			t.Errorf("%s: what waits is %+v, want the stray change", name, w)
		}
	}
}

func TestAuthorisationThatArrivesLater(t *testing.T) {
	known := false
	cfg := rules()
	cfg.Permits = func(Change) error {
		if known {
			return nil
		}
		return fmt.Errorf("head 12: %w", ErrNotYet)
	}
	s := newScene(t)
	s.create("c", 10, "user:alice", set("spec.a", "1"))
	s.add("r", 20, "loop:scheduler", "c", "", result("schedule", Register{Attempt: 1, Phase: PhaseDone}))
	state := s.fold(cfg)
	if _, ok := state.Object(web); ok {
		t.Fatal("a change counts before its authorisation is there")
	}
	known = true
	if refs := state.Retry(); !slices.Equal(refs, []Ref{web}) {
		t.Errorf("Retry concerns %v, want web", refs)
	}
	if o, ok := state.Object(web); !ok || len(o.Registers()) != 1 || len(state.Waiting()) != 0 {
		t.Error("the changes did not take effect")
	}
}

func TestHigherLevelHoldsTheObject(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice", set("spec.a", "1"))
	later := s.make(20, "user:alice", c, []ID{c}, set("spec.a", "2")).change
	later.Level = 2
	s.named["x"] = sealed(t, later)
	state := s.fold(rules())
	o, _ := state.Object(web)
	if got := s.summary(o); !o.Held() || got != "spec.a=1 heads=c rev=1" {
		t.Errorf("held=%v %s", o.Held(), got)
	}
	if refs := state.SetLevel(2); !slices.Equal(refs, []Ref{web}) {
		t.Errorf("SetLevel concerns %v, want web", refs)
	}
	o, _ = state.Object(web)
	if got := s.summary(o); o.Held() || got != "spec.a=2 heads=x rev=2" {
		t.Errorf("held=%v %s", o.Held(), got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := NewState(Config{}); err == nil {
		t.Error("a state without ownership was made")
	}
	if _, err := NewLog(LogConfig{}); err == nil {
		t.Error("a log without HashAt was made")
	}
	if errors.Is(ErrNotYet, ErrMalformed) {
		t.Error("the sentinels are one")
	}
}
