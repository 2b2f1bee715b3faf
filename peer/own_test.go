package peer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

const databaseKind = `
kind: Kind
name: database
spec:
  doc: A database for one application.
  fields:
    spec.engine: {type: string, enum: [postgres, sqlite], default: postgres, doc: x}
    spec.size: {type: bytes, required: true, doc: x}
    spec.note: {type: string, doc: x}
    status.loops.db.endpoint: {type: string, doc: x}
  rules:
    large: {check: "spec.engine != 'sqlite' || spec.size <= 1073741824", message: sqlite takes at most 1Gi, field: spec.size}
  steps:
    provision: {loop: db, reads: [spec.engine, spec.size], outputs: [status.loops.db.endpoint], undo: true}
    grant: {loop: db, requires: [provision], reads: [spec.note, status.loops.db.endpoint]}
  targets:
    stopped: {doc: Nothing runs.}
`

const mainDatabase = "kind: Database\nname: main\nspec: {size: 1Gi}\n"

var mainKey = api.Key{Kind: "Database", Namespace: "default", Name: "main"}

// edits reads documents as `peer apply` does, by the kinds that a core knows.
func (c *cluster) edits(i int, text string) []Edit {
	c.t.Helper()
	specs, err := c.cores[i-1].core.Catalog().ParseYAML("test", []byte(text))
	if err != nil {
		c.t.Fatal(err)
	}
	var edits []Edit
	for _, s := range specs {
		edits = append(edits, Edit{Kind: EditApply, Key: s.Key, Fields: s.Fields})
	}
	return edits
}

func (c *cluster) apply(i int, text string) Answer {
	c.t.Helper()
	return c.write(i, c.edits(i, text)...)
}

func (c *cluster) mustApply(i int, text string) {
	c.t.Helper()
	if a := c.apply(i, text); a.Err != nil {
		c.t.Fatal(a.Err)
	}
}

// A kind of people's own and its objects work like built-in ones: one change set brings
// both, the loop is called step by step with what it reads, an edit re-runs what reads it,
// and deletion takes it back.
func TestOwnKind(t *testing.T) {
	c := newCluster(t, 3)
	h := c.attach("db")
	h.give = lifecycle.Outputs{"status.loops.db.endpoint": `"[fd00::1]:5432"`}
	h.giveTo = "provision"
	c.run(3 * time.Second)
	c.mustApply(1, databaseKind+"---\n"+mainDatabase)
	c.run(2 * time.Second)
	for i := range c.cores {
		seen, ok := c.cores[i].core.See(mainKey)
		if !ok || seen.Eval.Verdict != lifecycle.Converged || seen.Object.Status().String("status.loops.db.endpoint") == "" {
			t.Fatalf("m%d: %v %s %v", i+1, ok, seen.Eval.Verdict, seen.Object)
		}
	}
	if got := fmt.Sprint(h.calls); got != "[provision main 2 grant main 1]" {
		t.Errorf("called %s", got)
	}
	h.calls = nil
	c.mustApply(2, mainDatabase+"  # a note\n")
	c.mustApply(2, strings.Replace(mainDatabase, "1Gi", "1Gi, note: hello", 1))
	c.run(time.Second)
	if got := fmt.Sprint(h.calls); got != "[grant main 2]" {
		t.Errorf("an edit of the note called %s", got)
	}
	h.calls = nil
	if a := c.write(3, Edit{Kind: EditDelete, Key: mainKey}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(time.Second)
	if _, there := c.cores[0].core.See(mainKey); there || fmt.Sprint(h.calls) != "[undo provision main 2]" {
		t.Errorf("after its deletion: there %v, called %v", there, h.calls)
	}
}

// What the Kind does not allow is refused at the door, with the reason.
func TestOwnKindRefuses(t *testing.T) {
	c := newCluster(t, 1)
	c.attach("db")
	c.run(3 * time.Second)
	if a := c.write(1, Edit{Kind: EditApply, Key: mainKey, Fields: api.Fields{"spec.size": `"1Gi"`}}); a.Err == nil || !strings.Contains(a.Err.Error(), `there is no kind "Database"`) {
		t.Errorf("before its Kind: %v", a.Err)
	}
	c.mustApply(1, databaseKind)
	for text, want := range map[string]string{
		"{size: 2Gi, engine: sqlite}": "spec.size: sqlite takes at most 1Gi (rule large)",
	} {
		a := c.apply(1, "kind: Database\nname: main\nspec: "+text+"\n")
		if a.Err == nil || a.Err.Code != api.SpecInvalid || !strings.Contains(a.Err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, a.Err, want)
		}
	}
	c.mustApply(1, mainDatabase)
	for edit, want := range map[string]string{
		"field: spec.size -> field: spec.size}\n    tiny: {check: spec.size < 1000, message: at most 999 bytes": "by this kind/database 1 object (database/main) would no longer be valid, so nothing was changed; of the first: spec.size: at most 999 bytes",
		"    spec.size: {type: bytes, required: true, doc: x} -> ":                                              "spec.engine != 'sqlite'",
		"check: \"spec.engine -> check: \"spec.engin":                                                           "did you mean engine?",
		"requires: [provision] -> requires: [provide]":                                                          `"db:grant" requires "provide", which does not exist`,
		"loop: db, reads: [spec.engine, -> loop: db, reads: [spec.engin,":                                       "step db:provision can't read spec.engin: a Database has no spec.engin",
	} {
		old, new, _ := strings.Cut(edit, " -> ")
		if !strings.Contains(databaseKind, old) {
			t.Fatalf("%q is not in the Kind", old)
		}
		specs, err := api.ParseYAML("k", []byte(strings.Replace(databaseKind, old, new, 1)))
		if err != nil {
			if !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "spec.size") {
				t.Errorf("%q: %v", edit, err)
			}
			continue
		}
		a := c.write(1, Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields})
		if a.Err == nil || !strings.Contains(a.Err.Error(), want) {
			t.Errorf("%q:\n%v\nwant\n%s", edit, a.Err, want)
		}
	}
	kind := api.Key{Kind: "Kind", Name: "database"}
	if a := c.write(1, Edit{Kind: EditDelete, Key: kind}); a.Err == nil || !strings.Contains(a.Err.Error(), "kind/database still has 1 object (database/main); delete them first") {
		t.Errorf("deleting the Kind: %v", a.Err)
	}
	if a := c.write(1, Edit{Kind: EditDelete, Key: kind}, Edit{Kind: EditDelete, Key: mainKey}); a.Err != nil {
		t.Errorf("deleting both: %v", a.Err)
	}
	c.run(2 * time.Second)
	if _, there := c.cores[0].core.Catalog().KindByName("database"); there {
		t.Error("the kind is still there when its objects are gone")
	}
}

// A change of a Kind says before it happens what it does, and then that happens.
func TestPlanOfKind(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("db")
	c.run(3 * time.Second)
	c.mustApply(1, databaseKind+"---\n"+mainDatabase)
	c.run(time.Second)
	h.calls = nil
	changed := strings.Replace(databaseKind, "default: postgres", "default: sqlite", 1)
	plans, fault := c.cores[0].core.Plan("user:alice", c.edits(1, changed))
	if fault != nil || fmt.Sprint(plans[0].Concerns) != "[db:provision runs again for 1 of 1 databases]" {
		t.Fatalf("%v %q", fault, plans[0].Concerns)
	}
	c.mustApply(1, changed)
	c.run(time.Second)
	if got := fmt.Sprint(h.calls); got != "[provision main 2]" {
		t.Errorf("called %s", got)
	}
	plans, fault = c.cores[0].core.Plan("user:alice", c.edits(1, "kind: Step\nname: audit\nspec: {kind: Database, loop: audit, requires: [\"db:provision\"], requiredBy: [ready]}\n"))
	if fault != nil || fmt.Sprint(plans[0].Concerns) != "[audit:audit runs with the next edit of 1 of 1 databases]" {
		t.Errorf("%v %q", fault, plans[0].Concerns)
	}
}

// Objects may arrive before their Kind: a peer keeps them, and shows them when it knows
// what they are.
func TestObjectsBeforeTheirKind(t *testing.T) {
	c := newCluster(t, 3)
	c.attach("db")
	c.run(3 * time.Second)
	c.split(3)
	c.mustApply(1, databaseKind)
	c.mustApply(2, mainDatabase)
	hear := func(from *node) {
		for _, b := range from.batch {
			if b.Actor == from.core.journal.actor {
				c.cores[2].core.Step(c.now, Received{From: from.core.self.ID, Message: Push{Batches: [][]byte{b.Encode()}, Fresh: true}})
			}
		}
		c.run(time.Second)
	}
	last := c.cores[2].core
	hear(c.cores[1])
	if _, ok := last.See(mainKey); ok {
		t.Fatal("the object is shown before its Kind is known")
	}
	if lives := last.Incarnations(mainKey); len(lives) != 1 || lives[0].Values()["spec.size"] != `"1Gi"` {
		t.Fatalf("the object is not kept: %v", lives)
	}
	hear(c.cores[0])
	if seen, ok := last.See(mainKey); !ok || seen.Object.Fields.String("spec.engine") != "postgres" {
		t.Error("the object is not shown when its Kind is known")
	}
	c.heal()
	c.run(5 * time.Second)
	if seen, _ := last.See(mainKey); seen.Eval.Verdict != lifecycle.Converged {
		t.Errorf("in the end it is %s", seen.Eval.Verdict)
	}
}

// Kinds and Steps that clash across a partition resolve alike everywhere: the newer one is
// left out, and says why.
func TestClaimsClashAcrossPartition(t *testing.T) {
	c := newCluster(t, 2)
	c.attach("db", "audit")
	c.run(3 * time.Second)
	c.split(1)
	c.mustApply(1, strings.Replace(databaseKind, "undo: true", "undo: true, claims: [\"pool:10.0.0.0/24\"]", 1)+"---\n"+mainDatabase)
	c.run(time.Second)
	c.mustApply(2, "kind: Step\nname: audit\nspec: {kind: Pod, loop: audit, requires: [network], requiredBy: [container], claims: [\"pool:10.0.0.128/25\"]}\n")
	c.run(time.Second)
	c.heal()
	c.run(3 * time.Second)
	const want = "[step/audit: loop audit claims pool:10.0.0.128/25, and pool:10.0.0.0/24 is claimed by loop db, by kind/database; one resource has one owner]"
	for i, n := range c.cores {
		if got := fmt.Sprint(n.core.Misfits()); got != want {
			t.Errorf("m%d: %s", i+1, got)
		}
		seen, _ := n.core.See(api.Key{Kind: "Step", Name: "audit"})
		if chain := seen.Graph.Explain(&seen.Eval); len(chain) == 0 || chain[len(chain)-1].Code != api.LoopRefused {
			t.Errorf("m%d: the Step is not shown as refused: %v", i+1, chain)
		}
		if seen, ok := n.core.See(mainKey); !ok || seen.Eval.Verdict != lifecycle.Converged {
			t.Errorf("m%d: the object that came after its Kind is %v %s", i+1, ok, seen.Eval.Verdict)
		}
	}
}

// TestClash: claims on the same, or on a part of it.
func TestClash(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"nftables:table/foo", "nftables:table/foo", true},
		{"nftables:table/foo", "nftables:table/foobar", false},
		{"nftables:table/foo", "nftables:table/foo/input", true},
		{"nftables:table/foo", "routes:table/foo", false},
		{"pool:10.0.0.0/24", "pool:10.0.0.128/25", true},
		{"pool:10.0.0.0/24", "pool:10.0.1.0/24", false},
		{"pool:fd00::/8", "pool:10.0.0.0/8", false},
		{"netns", "netns", true},
	} {
		if Clash(tt.a, tt.b) != tt.want || Clash(tt.b, tt.a) != tt.want {
			t.Errorf("%s and %s: %v", tt.a, tt.b, !tt.want)
		}
	}
}

// A Kind that is deleted on one side of a partition, while the other makes an object of it,
// stays in sight until somebody deletes that as well.
func TestKindDeletedAcrossPartition(t *testing.T) {
	c := newCluster(t, 2)
	c.attach("db")
	c.run(3 * time.Second)
	c.mustApply(1, databaseKind)
	c.split(1)
	c.mustApply(1, mainDatabase)
	kind := api.Key{Kind: "Kind", Name: "database"}
	if a := c.write(2, Edit{Kind: EditDelete, Key: kind}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.heal()
	c.run(5 * time.Second)
	for i, n := range c.cores {
		seen, ok := n.core.See(kind)
		object, there := n.core.See(mainKey)
		if !ok || !seen.Object.Deleted || !there || object.Eval.Verdict != lifecycle.Converged {
			t.Errorf("m%d: the Kind is in sight: %v; its object is: %v, %s", i+1, ok, there, object.Eval.Verdict)
		}
		chain := seen.Graph.Explain(&seen.Eval)
		if seen.Eval.Verdict != lifecycle.Blocked || len(chain) != 1 || !strings.Contains(chain[0].Message, "1 object (database/main)") {
			t.Errorf("m%d: the Kind is %s, by %v", i+1, seen.Eval.Verdict, chain)
		}
	}
	if a := c.apply(1, strings.Replace(mainDatabase, "main", "other", 1)); a.Err == nil || !strings.Contains(a.Err.Error(), "kind/database was deleted") {
		t.Errorf("a new object of a deleted Kind: %v", a.Err)
	}
	if a := c.write(2, Edit{Kind: EditDelete, Key: mainKey}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(3 * time.Second)
	for i, n := range c.cores {
		if _, ok := n.core.See(kind); ok {
			t.Errorf("m%d still sees the Kind", i+1)
		}
		if _, ok := n.core.Catalog().KindByName("database"); ok {
			t.Errorf("m%d still has the kind", i+1)
		}
	}
}
