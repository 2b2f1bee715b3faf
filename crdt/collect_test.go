package crdt

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// children adds a few of a loop's own objects to a world: made, turned, worked on, deleted
// in most cases, under names that are used again, in the order of what builds on what.
func children(rt *rapid.T, t *testing.T, entries []entry) []entry {
	state := newState(t, rules())
	applyAll(state, entries...)
	add := func(c Change) ID {
		c.Nonce, c.Level = uint64(1000+len(entries)), 1
		c.HLC = rapid.Uint64Range(1, 40).Draw(rt, "hlc")
		e := sealed(t, c)
		entries = append(entries, e)
		applyAll(state, e)
		return e.id
	}
	for range rapid.IntRange(1, 6).Draw(rt, "children") {
		ref := Ref{"Child", "", rapid.SampledFrom([]string{"c", "d"}).Draw(rt, "name")}
		id := add(Change{Object: ref, Author: "loop:roll", Ops: []Op{{Kind: OpCreate}, set("spec.image", "1")}})
		for range rapid.IntRange(0, 5).Draw(rt, "more") {
			heads := func() []ID { o, _ := state.Incarnation(ref, id); return o.Heads() }
			by := rapid.SampledFrom([]string{"loop:roll", "loop:roll", "loop:scaler", "user:alice"}).Draw(rt, "by")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				add(Change{Object: ref, Incarnation: id, Author: "loop:scheduler", Ops: []Op{result("schedule", Register{Attempt: rapid.Uint64Range(1, 3).Draw(rt, "attempt"), Phase: PhaseDone, Executor: machine(1)})}})
			case 1:
				add(Change{Object: ref, Incarnation: id, Parents: heads(), Author: by, Ops: []Op{set("spec.args", "2")}})
			default:
				if rapid.IntRange(0, 5).Draw(rt, "deleted by") > 0 {
					by = "loop:roll"
				}
				add(Change{Object: ref, Incarnation: id, Parents: heads(), Author: by, Ops: []Op{{Kind: OpDelete}}})
			}
		}
	}
	return entries
}

// without is what is not among the covered.
func without(entries []entry, covered map[ID]bool) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return covered[e.id] })
}

// TestCollectingIsFoldingWithout: a state from which incarnations were collected is the one of
// the entries that are not covered, whatever was folded before and whatever comes later, and
// with as much of the rest covered as anybody likes.
func TestCollectingIsFoldingWithout(t *testing.T) {
	collected, voided := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		entries := children(rt, t, drawWorld(rt, t).entries)
		whole := newState(t, rules())
		applyAll(whole, entries...)
		covered, ended := map[ID]bool{}, map[ID]bool{}
		for _, e := range entries {
			if _, ok := whole.Ended(e.change.Object, e.id); ok && rapid.IntRange(0, 3).Draw(rt, "collect") > 0 {
				covered[e.id], ended[e.id] = true, true
			}
		}
		collected += len(ended)
		want := newState(t, rules())
		applyAll(want, without(entries, covered)...)
		for _, e := range entries {
			if ended[e.change.Incarnation] && rapid.Bool().Draw(rt, "cover the rest") {
				covered[e.id] = true
			}
		}
		got := newState(t, packing(rules()))
		order := rapid.Permutation(entries).Draw(rt, "order")
		at := rapid.IntRange(0, len(order)).Draw(rt, "learnt after")
		applyAll(got, order[:at]...)
		if rapid.Bool().Draw(rt, "look") {
			got.Hash()
			got.Objects("Child")
		}
		for _, e := range order[:at] {
			if ended[e.id] {
				got.Collect(e.change.Object, e.id)
			}
		}
		for _, e := range order[:at] {
			if !covered[e.id] || ended[e.id] || e.change.Level > 1 {
				continue
			}
			if !got.Void(e.change, e.id) {
				rt.Fatalf("a covered change of what is collected is not void: %+v", e.change)
			}
			voided++
		}
		applyAll(got, without(order[at:], covered)...)
		if got.Hash() != want.Hash() {
			rt.Fatalf("collected:\n%s\n--- but folded without:\n%s", dump(got), dump(want))
		}
		if a, b := fmt.Sprint(names(got)), fmt.Sprint(names(want)); a != b {
			rt.Fatalf("the children are %s, not %s", a, b)
		}
		for _, w := range got.Waiting() {
			if covered[w.Change] {
				rt.Fatalf("a covered change waits: %+v", w)
			}
		}
	})
	if collected == 0 || voided == 0 {
		t.Errorf("%d were collected, and %d changes void", collected, voided)
	}
}

func names(s *State) (list []string) {
	for _, o := range s.Objects("Child") {
		list = append(list, o.Ref().Name+o.ID().String())
	}
	return list
}

// TestEndedIsNobodysButALoops: what people made, or had a say in, is never collected, nor
// what lives.
func TestEndedIsNobodysButALoops(t *testing.T) {
	w := &writer{t: t, ref: Ref{"Child", "", "c"}}
	made := w.create(1, "loop:roll", set("spec.image", "1"))
	deleted := w.make(2, "loop:roll", made.id, []ID{made.id}, Op{Kind: OpDelete})
	turned := w.make(3, "user:alice", made.id, []ID{made.id}, set("lifecycle.rerun", "1"))
	theirs := w.create(1, "user:alice", set("spec.image", "1"))
	gone := w.make(2, "user:alice", theirs.id, []ID{theirs.id}, Op{Kind: OpDelete})
	for what, c := range map[string]struct {
		of      entry
		entries []entry
		want    bool
	}{
		"lives":                     {made, []entry{made}, false},
		"is deleted":                {made, []entry{made, deleted}, true},
		"a person turned":           {made, []entry{made, deleted, turned}, false},
		"a person made and deleted": {theirs, []entry{theirs, gone}, false},
		"is not known":              {made, []entry{theirs}, false},
	} {
		s := newState(t, rules())
		applyAll(s, c.entries...)
		if latest, got := s.Ended(w.ref, c.of.id); got != c.want || got && latest != 2 {
			t.Errorf("what %s has ended: %v, at %d", what, got, latest)
		}
	}
}

// TestCollectedNamesAreForgotten: nothing is left of a name once all of its incarnations are
// collected, in any of the ways in which a state holds it.
func TestCollectedNamesAreForgotten(t *testing.T) {
	for _, cfg := range []Config{rules(), packing(rules())} {
		s := newState(t, cfg)
		empty := s.Hash()
		var made []entry
		for i := range 20 {
			w := &writer{t: t, ref: Ref{"Child", "", fmt.Sprint(i)}}
			e := w.create(1, "loop:roll", set("spec.image", "1"))
			late := w.make(3, "loop:roll", e.id, []ID{idOf("never here")}, set("spec.image", "2"))
			applyAll(s, e, w.make(2, "loop:roll", e.id, []ID{e.id}, Op{Kind: OpDelete}), late)
			made = append(made, e, late)
		}
		s.Hash()
		s.Objects("Child")
		for _, e := range made {
			if e.change.Incarnation.IsZero() && !s.Collect(e.change.Object, e.id) || !e.change.Incarnation.IsZero() && !s.Void(e.change, e.id) {
				t.Fatalf("%+v is not collected", e.change)
			}
		}
		applyAll(s, made[1]) // later than its object was collected
		s.Void(made[1].change, made[1].id)
		if len(s.slots) != 0 || len(s.kinds["Child"].all()) != 0 || len(s.Objects("Child")) != 0 || len(s.Waiting()) != 0 || s.Hash() != empty || s.InMemory() != 0 {
			t.Errorf("%d names, %d objects, %d waiting changes and %d bytes are left", len(s.slots), len(s.Objects("Child")), len(s.Waiting()), s.InMemory())
		}
		applyAll(s, made[0])
		if len(s.Objects("Child")) != 1 {
			t.Error("the name can't be used again")
		}
	}
}
