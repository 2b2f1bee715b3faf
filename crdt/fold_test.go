package crdt

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// scene is a small history of web, each change named, for the laws below.
type scene struct {
	*writer
	named map[string]entry
}

func newScene(t testing.TB) *scene {
	return &scene{&writer{t: t, ref: web}, map[string]entry{}}
}

// add names a change; its parents are given by name.
func (s *scene) add(name string, hlc uint64, author, inc string, parents string, ops ...Op) ID {
	var ids []ID
	for p := range strings.FieldsSeq(parents) {
		ids = append(ids, s.named[p].id)
	}
	var incarnation ID
	if inc != "" {
		incarnation = s.named[inc].id
	}
	s.named[name] = s.make(hlc, author, incarnation, ids, ops...)
	return s.named[name].id
}

func (s *scene) create(name string, hlc uint64, author string, ops ...Op) ID {
	return s.add(name, hlc, author, "", "", append([]Op{{Kind: OpCreate}}, ops...)...)
}

// fold applies the changes in every rotation of their order, and insists on one
// result.
func (s *scene) fold(cfg Config) *State {
	s.t.Helper()
	names := slices.Sorted(maps.Keys(s.named))
	var first *State
	for i := range names {
		state := newState(s.t, cfg)
		for _, name := range slices.Concat(names[i:], names[:i]) {
			state.Apply(s.named[name].change, s.named[name].id)
		}
		if first == nil {
			first = state
		}
		if dump(first) != dump(state) {
			s.t.Fatalf("order decides:\n%s\n---\n%s", dump(first), dump(state))
		}
	}
	return first
}

// name finds the name of a change, for messages.
func (s *scene) name(id ID) string {
	for name, e := range s.named {
		if e.id == id {
			return name
		}
	}
	return id.String()
}

// summary prints what holds the name: its fields, its heads, whether it is deleted.
func (s *scene) summary(o *Object) string {
	values := o.Values()
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, path+"="+values[path])
	}
	var heads []string
	for _, h := range o.Heads() {
		heads = append(heads, s.name(h))
	}
	slices.Sort(heads)
	parts = append(parts, "heads="+strings.Join(heads, ","), fmt.Sprint("rev=", o.Number()))
	if o.Deleted() {
		parts = append(parts, "deleted")
	}
	return strings.Join(parts, " ")
}

const alice, bob = "user:alice", "user:bob"

var del = Op{Kind: OpDelete}

// laws are what the fold makes of small histories, in words and as an example.
var laws = []struct {
	name  string
	scene func(s *scene)
	want  string
}{
	{"the later stamp wins", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("x", 30, alice, "c", "c", set("spec.a", "2"))
		s.add("y", 20, bob, "c", "c", set("spec.a", "3"))
	}, "spec.a=2 heads=x,y rev=2"},
	{"an edit is later than its parents, whatever its clock says", func(s *scene) {
		s.create("c", 100, alice, set("spec.a", "1"))
		s.add("x", 1, bob, "c", "c", set("spec.a", "2"))
		s.add("y", 2, bob, "c", "x", set("spec.a", "3"))
	}, "spec.a=3 heads=y rev=3"},
	{"a removal is a write", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"), set("spec.b", "1"))
		s.add("x", 20, alice, "c", "c", unset("spec.a"))
	}, "spec.b=1 heads=x rev=2"},
	{"an older write does not undo a removal", func(s *scene) {
		s.create("c", 10, alice, set("spec.b", "1"))
		s.add("x", 30, alice, "c", "c", unset("spec.a"))
		s.add("y", 20, bob, "c", "c", set("spec.a", "1"))
	}, "spec.b=1 heads=x,y rev=2"},
	{"of one change's writes the last counts", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"), set("spec.a", "2"))
	}, "spec.a=2 heads=c rev=1"},
	{"edits of different fields merge", func(s *scene) {
		s.create("c", 10, alice)
		s.add("x", 20, alice, "c", "c", set("spec.a", "1"))
		s.add("y", 20, bob, "c", "c", set("spec.b", "2"))
		s.add("m", 21, bob, "c", "x y", set("spec.c", "3"))
	}, "spec.a=1 spec.b=2 spec.c=3 heads=m rev=3"},
	{"a loop's write of a person's field has no effect", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("x", 20, "loop:scheduler", "c", "c", set("spec.a", "2"))
	}, "spec.a=1 heads=c rev=1"},
	{"a person's write of a loop's field has no effect", func(s *scene) {
		s.create("c", 10, alice)
		s.add("x", 20, alice, "c", "c", set("spec.a", "1"), set("lifecycle.turn", "2"))
	}, "heads=c rev=1"},
	{"a loop's field is no rev", func(s *scene) {
		s.create("c", 10, alice)
		s.add("x", 20, "loop:scaler", "c", "c", set("spec.auto", "4"))
		s.add("y", 20, "loop:scheduler", "c", "c", set("lifecycle.turn", "5"))
	}, "lifecycle.turn=5 spec.auto=4 heads=c rev=1"},
	{"a wish about the lifecycle is no rev", func(s *scene) {
		s.create("c", 10, alice)
		s.add("x", 20, alice, "c", "c", set("lifecycle.rerun", `"now"`))
	}, `lifecycle.rerun="now" heads=c rev=1`},
	{"a deletion ends the object", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("d", 20, bob, "c", "c", del)
	}, "spec.a=1 heads=d rev=1 deleted"},
	{"an edit that a deletion did not know revives the object", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("d", 20, bob, "c", "c", del)
		s.add("x", 15, alice, "c", "c", set("spec.b", "2"))
	}, "spec.a=1 spec.b=2 heads=x rev=2"},
	{"several edits that a deletion did not know revive one object", func(s *scene) {
		s.create("c", 10, alice)
		s.add("d", 20, bob, "c", "c", del)
		s.add("x", 15, alice, "c", "c", set("spec.a", "1"))
		s.add("y", 16, bob, "c", "c", set("spec.b", "2"))
	}, "spec.a=1 spec.b=2 heads=x,y rev=2"},
	{"an edit that one of two deletions knew does not revive", func(s *scene) {
		s.create("c", 10, alice)
		s.add("x", 15, alice, "c", "c", set("spec.a", "1"))
		s.add("d1", 20, bob, "c", "c", del)
		s.add("d2", 21, alice, "c", "x", del)
	}, "spec.a=1 heads=d1,d2 rev=2 deleted"},
	{"an edit after a deletion has no effect", func(s *scene) {
		s.create("c", 10, alice)
		s.add("d", 20, bob, "c", "c", del)
		s.add("x", 30, alice, "c", "d", set("spec.a", "1"))
	}, "heads=d rev=1 deleted"},
	{"a loop's write does not revive", func(s *scene) {
		s.create("c", 10, alice)
		s.add("d", 20, bob, "c", "c", del)
		s.add("x", 30, "loop:scaler", "c", "c", set("spec.auto", "1"))
	}, "spec.auto=1 heads=d rev=1 deleted"},
	{"a loop may not delete a person's object", func(s *scene) {
		s.create("c", 10, alice)
		s.add("d", 20, "loop:scheduler", "c", "c", del)
	}, "heads=c rev=1"},
	{"a name may be taken again after a deletion", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("d", 20, bob, "c", "c", del)
		s.create("n", 30, alice, set("spec.a", "2"))
	}, "spec.a=2 heads=n rev=1"},
	{"of two creations the earlier has the name", func(s *scene) {
		s.create("n", 30, alice, set("spec.a", "2"))
		s.create("c", 10, bob, set("spec.a", "1"))
	}, "spec.a=1 heads=c rev=1"},
	{"the loser has the name once the winner is deleted", func(s *scene) {
		s.create("n", 30, alice, set("spec.a", "2"))
		s.create("c", 10, bob, set("spec.a", "1"))
		s.add("d", 40, bob, "c", "c", del)
	}, "spec.a=2 heads=n rev=1"},
	{"of several deleted the last is shown", func(s *scene) {
		s.create("c", 10, alice, set("spec.a", "1"))
		s.add("d", 20, bob, "c", "c", del)
		s.create("n", 30, alice, set("spec.a", "2"))
		s.add("e", 40, bob, "n", "n", del)
	}, "spec.a=2 heads=e rev=1 deleted"},
}

func TestLaws(t *testing.T) {
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			s := newScene(t)
			law.scene(s)
			o, ok := s.fold(rules()).Object(web)
			if !ok {
				t.Fatal("there is no object")
			}
			if got := s.summary(o); got != law.want {
				t.Errorf("got  %s\nwant %s", got, law.want)
			}
		})
	}
}

func TestRevivedObjectIsAnotherOne(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice", set("spec.a", "1"))
	s.add("r", 11, "loop:scheduler", "c", "", result("schedule", Register{Attempt: 1, Phase: PhaseDone}))
	s.add("w", 12, "user:bob", "c", "c", set("lifecycle.target", `"stopped"`))
	s.add("l", 13, "loop:scheduler", "c", "c", set("lifecycle.turn", "1"))
	s.add("d", 20, "user:bob", "c", "c", Op{Kind: OpDelete})
	s.add("k", 25, "user:bob", "c", "d", set("lifecycle.skip", "1"))
	x := s.add("x", 15, "user:alice", "c", "c", set("spec.b", "2"))
	revived := revivedID(c)
	s.named["y"] = s.make(30, "user:bob", revived, []ID{x}, set("spec.c", "3"))
	s.named["q"] = s.make(31, "loop:scheduler", revived, nil, result("schedule", Register{Attempt: 1, Phase: PhaseFailed}))

	state := s.fold(rules())
	o, _ := state.Object(web)
	if o.ID() != revived || o.Deleted() || !o.HoldsName() {
		t.Fatalf("the name is held by %v, want the revived %v", o.ID(), revived)
	}
	if got := s.summary(o); got != `lifecycle.target="stopped" spec.a=1 spec.b=2 spec.c=3 heads=y rev=3` {
		t.Errorf("the revived object is %s", got)
	}
	if g, _ := o.Register("schedule"); g.Phase != PhaseFailed {
		t.Errorf("the revived object shows a result that is not its own: %+v", g)
	}
	old, ok := state.Incarnation(web, c)
	if g, _ := old.Register("schedule"); !ok || !old.Deleted() || g.Phase != PhaseDone {
		t.Errorf("the deleted incarnation lost its results, or its end")
	}
}

func TestRevivalThatALateDeletionUndoesIsTakenDown(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	s.add("d", 20, "user:bob", "c", "c", Op{Kind: OpDelete})
	s.add("x", 15, "user:alice", "c", "c", set("spec.b", "2"))
	s.named["r"] = s.make(31, "loop:scheduler", revivedID(c), nil, result("schedule", Register{Attempt: 1, Phase: PhaseDone}))
	s.add("e", 40, "user:alice", "c", "x", Op{Kind: OpDelete})
	o, ok := s.fold(rules()).Incarnation(web, revivedID(c))
	if !ok || !o.Deleted() || len(o.Registers()) != 1 {
		t.Errorf("the revived object must be there to be taken down; got %v", ok)
	}
}

func TestEditOfTheRevivedMayKnowTheDeletion(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	d := s.add("d", 20, "user:bob", "c", "c", Op{Kind: OpDelete})
	x := s.add("x", 15, "user:alice", "c", "c", set("spec.b", "2"))
	s.named["y"] = s.make(30, "user:bob", revivedID(c), []ID{d, x}, set("spec.c", "3"))
	o, _ := s.fold(rules()).Object(web)
	if got := s.summary(o); got != "spec.b=2 spec.c=3 heads=y rev=3" {
		t.Errorf("got %s", got)
	}
}

func TestConflictsStayUntilSettled(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice", set("spec.a", "1"), set("spec.same", "1"), set("spec.one", "1"))
	s.add("x", 30, "user:alice", "c", "c", set("spec.a", "2"), set("spec.same", "9"), set("spec.one", "2"))
	s.add("y", 20, "user:bob", "c", "c", unset("spec.a"), set("spec.same", "9"))
	s.add("z", 25, "user:bob", "c", "y", set("spec.other", "1"))
	o, _ := s.fold(rules()).Object(web)
	want := []Conflict{{"spec.a", []Claim{
		{"2", "user:alice", s.named["x"].id},
		{"", "user:bob", s.named["y"].id},
	}}}
	if got := o.Conflicts(); !reflect.DeepEqual(got, want) {
		t.Errorf("conflicts %+v, want %+v", got, want)
	}
	s.add("m", 40, "user:bob", "c", "x z", set("spec.a", "5"))
	o, _ = s.fold(rules()).Object(web)
	if got := o.Conflicts(); got != nil {
		t.Errorf("after the merge conflicts remain: %+v", got)
	}
}

// A change that arrives late takes its place in the middle of a history that
// readers hold.
func TestLateChangeLeavesSnapshotsAlone(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice")
	late := s.add("late", 11, "user:bob", "c", "c", set("spec.b", "1"))
	state := newState(t, rules())
	applyAll(state, s.named["c"])
	parent := "c"
	for i := range uint64(5) {
		name := fmt.Sprint(i)
		s.add(name, 20+i, "user:alice", "c", parent, set("spec.a", name))
		applyAll(state, s.named[name])
		parent = name
	}
	before, _ := state.Object(web)
	text := show(before)
	applyAll(state, s.named["late"])
	if after, _ := state.Object(web); after.Revs()[1].Change != late {
		t.Error("the late change is not in its place")
	}
	if now := show(before); now != text {
		t.Errorf("the snapshot changed from\n%s\nto\n%s", text, now)
	}
}

func TestLosersAreShown(t *testing.T) {
	s := newScene(t)
	s.create("n", 30, "user:alice")
	s.create("c", 10, "user:bob")
	state := s.fold(rules())
	o, _ := state.Object(web)
	if want := []Loser{{s.named["n"].id, "user:alice"}}; !reflect.DeepEqual(o.Losers(), want) {
		t.Errorf("losers %v, want %v", o.Losers(), want)
	}
	loser, _ := state.Incarnation(web, s.named["n"].id)
	if loser.HoldsName() || loser.Deleted() {
		t.Error("the loser is not an object without its name")
	}
}

func TestObjectsAreListedInOrder(t *testing.T) {
	state := newState(t, rules())
	var want []string
	for i := range 60 {
		name := fmt.Sprintf("n%02d", (i*37)%60)
		w := &writer{t: t, ref: Ref{"Pod", "default", name}}
		applyAll(state, w.create(10, "user:alice"))
		want = append(want, name)
		if i%7 == 0 {
			state.Objects("Pod")
		}
	}
	slices.Sort(want)
	var got []string
	for _, o := range state.Objects("Pod") {
		got = append(got, o.Ref().Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed as %v", got)
	}
	if len(state.Objects("Machine")) != 0 {
		t.Error("a kind without objects lists some")
	}
}
