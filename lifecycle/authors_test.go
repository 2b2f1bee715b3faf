package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
)

// listening is a lifecycle with one step for everybody's edits, and two that select authors;
// the last reads the same as the first.
func listening(t failer) *Graph {
	do := func(context.Context, Host, Inputs) (Outputs, error) { return nil, nil }
	step := func(name string, reads []string, by ...string) Step {
		return Step{Name: name, Reads: reads, Timeout: time.Second, Do: do, Authors: api.Authors{By: by}}
	}
	g, err := NewGraph("Thing", []Target{{Name: "ready", Goal: true, Requires: []string{"all", "people", "bob"}}}, []Loop{{Name: "x", Kind: "Thing", Steps: []Step{
		step("all", []string{"spec.a", "status.s", "lifecycle.l"}), step("people", []string{"spec", "status.s"}, "user:*"), step("bob", []string{"spec.a", "lifecycle.l"}, "user:bob"),
	}}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// What is kept from one reading to the next changes no hash, whatever changes: the spec, or
// what some authors left of it.
func TestMemoOfWhatAuthorsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := listening(t)
		draw := func(what string) api.Fields {
			f := api.Fields{}
			for _, path := range []string{"spec.a", "spec.b", "lifecycle.l"} {
				if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, what+path); v != "" {
					f[path] = v
				}
			}
			return f
		}
		o := &Object{Fields: draw("fields"), Left: map[string]api.Fields{"people": draw("people")}, Results: map[string]Result{}}
		var kept Memo
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			next := *o
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				next.Fields = draw("fields")
			case 1:
				next.Left = map[string]api.Fields{"people": draw("people"), "bob": draw("bob")}
			case 2:
				next.Results = map[string]Result{"other": {Outputs: Outputs{"status.s": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "s")}}}
			}
			o = &next
			kept.read(g, o)
			for i, n := range g.nodes {
				if fresh := g.read(o); kept.hash(i, "") != fresh.hash(i, "") {
					t.Fatalf("%s: the hash of what it reads depends on what was there before", n.name)
				}
			}
		}
	})
}

// The proof tells whose edits call a step, and the budget of a loop that has its own.
func TestProofTellsAuthorsAndBudgets(t *testing.T) {
	do := func(context.Context, Host, Inputs) (Outputs, error) { return nil, nil }
	g, err := NewGraph("Thing", nil, []Loop{{Name: "x", Kind: "Thing", Entries: 7, Steps: []Step{
		{Name: "a", Timeout: time.Second, Do: do, Authors: api.Authors{By: []string{"user:*"}, NotBy: []string{"user:bob"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Verify(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Entries: loop x writes at most 7 about one object at once, then one each 2s; others 60.", "Authors: a is called by edits of user:* but user:bob.",
	} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("the proof lacks %q:\n%s", want, p)
		}
	}
}

// An edit by others neither reaches a step that selects authors nor makes it dirty; it does
// not concern an object that none of them edited.
func TestStepOfSelectedAuthors(t *testing.T) {
	g := listening(t)
	o := &Object{Fields: api.Fields{"spec.a": "1"}, Left: map[string]api.Fields{"people": {"spec.a": "1"}}, Results: map[string]Result{}}
	if g.Concerns(o, "bob") || !g.Concerns(o, "people") || !g.Concerns(o, "all") {
		t.Error("concerned are not exactly the steps whose authors edited the object")
	}
	edited := *o
	edited.Fields = api.Fields{"spec.a": "2", "spec.b": "2"}
	if g.ReadsHash(o, "people", "") != g.ReadsHash(&edited, "people", "") || g.ReadsHash(o, "all", "") == g.ReadsHash(&edited, "all", "") {
		t.Error("an edit by another makes dirty what selects authors, or leaves the rest alone")
	}
	if got := changed(g.read(o).all, g.read(&edited).all, g.index["all"].at); !slices.Equal(got, []string{"spec.a"}) {
		t.Errorf("what changed for all is %v", got)
	}
	if got := g.read(&edited).fieldsOf(g.index["people"].at); got["spec.a"] != "1" || len(got) != 1 {
		t.Errorf("the step is given %v", got)
	}
}
