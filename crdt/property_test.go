package crdt

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// replica is an author's view: it writes on top of what it has seen.
type replica struct {
	state *State
	clock Clock
	seen  int // entries of the world that it has
}

// world lets a few replicas write concurrently and exchange now and then, so that
// the change sets hold all that real ones do: forks, merges, deletions, revivals,
// lost names, refusals, late and superseded results.
type world struct {
	rt       *rapid.T
	t        testing.TB
	replicas []*replica
	entries  []entry
	nonce    uint64
}

var worldRefs = []Ref{web, {"Pod", "default", "db"}, {"Child", "", "c"}}

func drawWorld(rt *rapid.T, t testing.TB) *world {
	w := &world{rt: rt, t: t}
	for range rapid.IntRange(1, 3).Draw(rt, "replicas") {
		w.replicas = append(w.replicas, &replica{state: newState(t, rules())})
	}
	for range rapid.IntRange(1, 40).Draw(rt, "actions") {
		r := rapid.SampledFrom(w.replicas).Draw(rt, "replica")
		if rapid.IntRange(0, 4).Draw(rt, "sync") == 0 {
			w.sync(r)
			continue
		}
		w.act(r)
	}
	return w
}

func (w *world) sync(r *replica) {
	for _, e := range w.entries[r.seen:] {
		r.state.Apply(e.change, e.id)
		r.clock.Observe(e.change.HLC)
	}
	r.seen = len(w.entries)
}

func (w *world) add(r *replica, c Change) {
	w.nonce++
	c.Nonce, c.Level = w.nonce, 1
	if rapid.IntRange(0, 15).Draw(w.rt, "future") == 0 {
		c.Level = 2
	}
	if rapid.IntRange(0, 9).Draw(w.rt, "forbidden") == 0 {
		c.Message = "forbidden"
	}
	c.HLC = r.clock.Now(int64(rapid.IntRange(0, 20).Draw(w.rt, "time")))
	e := sealed(w.t, c)
	w.entries = append(w.entries, e)
	r.state.Apply(e.change, e.id)
}

var authors = []string{"user:alice", "user:bob", "user:alice", "loop:scheduler", "loop:roll", "loop:scaler"}

func (w *world) act(r *replica) {
	ref := rapid.SampledFrom(worldRefs).Draw(w.rt, "ref")
	c := Change{Object: ref, Author: rapid.SampledFrom(authors).Draw(w.rt, "author")}
	incs := r.state.Incarnations(ref)
	if len(incs) == 0 || rapid.IntRange(0, 9).Draw(w.rt, "create") == 0 {
		c.Ops = append([]Op{{Kind: OpCreate}}, w.fields()...)
		w.add(r, c)
		return
	}
	o := incs[len(incs)-1]
	if rapid.IntRange(0, 3).Draw(w.rt, "old") == 0 {
		o = rapid.SampledFrom(incs).Draw(w.rt, "incarnation")
	}
	c.Incarnation = o.ID()
	switch rapid.IntRange(0, 9).Draw(w.rt, "action") {
	case 0, 1:
		c.Parents, c.Ops = o.Heads(), []Op{{Kind: OpDelete}}
	case 2, 3, 4:
		c.Ops, c.Author = w.results(), "loop:scheduler"
	default:
		c.Parents, c.Ops = o.Heads(), w.fields()
	}
	w.add(r, c)
}

func (w *world) fields() []Op {
	paths := []string{"spec.image", "spec.args", "spec.image", "spec.args", "lifecycle.rerun", "spec.auto", "lifecycle.turn"}
	var ops []Op
	for range rapid.IntRange(1, 2).Draw(w.rt, "fields") {
		path := rapid.SampledFrom(paths).Draw(w.rt, "path")
		if rapid.IntRange(0, 4).Draw(w.rt, "unset") == 0 {
			ops = append(ops, unset(path))
			continue
		}
		ops = append(ops, set(path, rapid.SampledFrom([]string{"1", "2", `"x"`}).Draw(w.rt, "value")))
	}
	return ops
}

func (w *world) results() []Op {
	step := rapid.SampledFrom([]string{"schedule", "schedule", "address"}).Draw(w.rt, "step")
	return []Op{result(step, Register{
		Attempt:  uint64(rapid.IntRange(1, 3).Draw(w.rt, "attempt")),
		Phase:    Phase(rapid.IntRange(1, 4).Draw(w.rt, "phase")),
		Executor: machine(byte(rapid.IntRange(1, 3).Draw(w.rt, "executor"))),
		Queued:   1000,
		Outputs:  map[string]string{"status.machine": rapid.SampledFrom([]string{`"m1"`, `"m2"`}).Draw(w.rt, "machine")},
	})}
}

// shuffled is the change set in another order, with repetitions.
func (w *world) shuffled() []entry {
	order := rapid.Permutation(w.entries).Draw(w.rt, "order")
	again := rapid.SliceOfN(rapid.SampledFrom(w.entries), 0, 10).Draw(w.rt, "again")
	return slices.Concat(order, again)
}

func TestFoldDependsOnTheSetOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, t)
		if len(w.entries) == 0 {
			return
		}
		a, b := newState(t, rules()), newState(t, packing(rules()))
		applyAll(a, w.entries...)
		for _, e := range w.shuffled() {
			b.Apply(e.change, e.id)
			if rapid.Bool().Draw(rt, "look") {
				b.Hash() // an earlier look must not show in a later one
				b.Objects("Pod")
			}
		}
		if da, db := dump(a), dump(b); da != db {
			rt.Fatalf("two orders differ:\n%s\n--- and ---\n%s", da, db)
		}
		if a.Hash() != b.Hash() {
			rt.Fatalf("equal states have unequal hashes:\n%s", dump(a))
		}
		if c := reread(t, b); dump(a) != dump(c) || a.Hash() != c.Hash() {
			rt.Fatalf("by way of a checkpoint:\n%s\n--- and ---\n%s", dump(a), dump(c))
		} else if rapid.Bool().Draw(rt, "go on from the checkpoint") {
			b = c
		}
		a.SetLevel(2)
		b.SetLevel(2)
		full := newState(t, packing(raised()))
		applyAll(full, w.shuffled()...)
		if dump(a) != dump(full) || b.Hash() != full.Hash() || a.Hash() != full.Hash() {
			rt.Fatalf("raising the level late differs from having it:\n%s\n--- and ---\n%s", dump(a), dump(full))
		}
	})
}

// reread writes a checkpoint of a state and reads it back.
func reread(t *testing.T, s *State) *State {
	t.Helper()
	var written bytes.Buffer
	if err := Capture(newLog(t, nil), s, []byte("mine"), nameless).Write(&written); err != nil {
		t.Fatal(err)
	}
	again := newState(t, packing(rules()))
	if extra, err := ReadCheckpoint(open(written.Bytes()), newLog(t, nil), again, ignored); err != nil || string(extra) != "mine" {
		t.Fatalf("%q, %v", extra, err)
	}
	return again
}

// packing keeps one object open only, so that the others are packed all the time.
func packing(cfg Config) Config {
	cfg.Open = 1
	return cfg
}

func raised() Config {
	cfg := rules()
	cfg.Level = 2
	return cfg
}

// The incremental fold must agree with the plain rule, on every field and rev.
func TestFoldAgreesWithTheRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, t)
		s := newState(t, packing(rules()))
		applyAll(s, w.entries...)
		for _, ref := range worldRefs {
			for _, o := range s.Incarnations(ref) {
				checkAgainstRule(rt, o)
			}
		}
	})
}

func checkAgainstRule(rt *rapid.T, o *Object) {
	revs := map[ID]Rev{}
	for _, r := range o.Revs() {
		revs[r.Change] = r
	}
	for _, r := range revs {
		checkRev(rt, revs, r)
		got, err := o.SpecAt(r.Change)
		if err != nil {
			rt.Fatal(err)
		}
		if want := specByRule(revs, r.Change); !maps.Equal(got, want) {
			rt.Fatalf("spec at rev %s is %v, by the rule %v\n%+v", o.RevName(r.Change), got, want, o.Revs())
		}
		if ids, err := o.ParseRev(o.RevName(r.Change)); r.IsRev && (err != nil || ids[0] != r.Change) {
			rt.Fatalf("rev name %q resolves to %v, %v", o.RevName(r.Change), ids, err)
		}
	}
	spec, err := o.SpecAt(o.Heads()...)
	if err != nil {
		rt.Fatal(err)
	}
	delete(spec, "spec.auto") // owned by a loop, whose writes are no revs
	owned := o.Values()
	maps.DeleteFunc(owned, func(path, _ string) bool { return !strings.HasPrefix(path, "spec.") || path == "spec.auto" })
	if o.HoldsName() && !maps.Equal(spec, owned) {
		rt.Fatalf("the fields %v are not the spec at the heads, %v", owned, spec)
	}
}

func checkRev(rt *rapid.T, revs map[ID]Rev, r Rev) {
	stamp, number := r.HLC, uint64(0)
	for _, p := range r.Parents {
		if parent, ok := revs[p]; ok {
			stamp, number = max(stamp, parent.Stamp+1), max(number, parent.Number)
		}
	}
	if r.IsRev {
		number++
	}
	if r.Stamp != stamp || r.Number != number {
		rt.Fatalf("rev %+v: want stamp %d and number %d", r, stamp, number)
	}
}

// specByRule folds a rev's ancestors as the design says it, with no cleverness.
func specByRule(revs map[ID]Rev, at ID) map[string]string {
	var ancestors []Rev
	seen := map[ID]bool{}
	var visit func(ID)
	visit = func(id ID) {
		r, ok := revs[id]
		if !ok || seen[id] {
			return
		}
		seen[id] = true
		if r.Refused == "" {
			ancestors = append(ancestors, r)
		}
		for _, p := range r.Parents {
			visit(p)
		}
	}
	visit(at)
	slices.SortFunc(ancestors, func(a, b Rev) int {
		if a.Stamp != b.Stamp {
			return int(int64(a.Stamp) - int64(b.Stamp))
		}
		return a.Change.Compare(b.Change)
	})
	spec := map[string]string{}
	for _, r := range ancestors {
		for _, o := range r.Ops {
			switch {
			case !strings.HasPrefix(o.Path, "spec."):
			case o.Kind == OpSet:
				spec[o.Path] = o.Value
			case o.Kind == OpUnset:
				delete(spec, o.Path)
			}
		}
	}
	return spec
}

// What was handed out must never change, whatever comes later.
func TestObjectsAreSnapshots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, t)
		if len(w.entries) == 0 {
			return
		}
		s := newState(t, rules())
		before := map[*Object]string{}
		for _, e := range w.shuffled() {
			s.Apply(e.change, e.id)
			for _, o := range s.Incarnations(e.change.Object) {
				if _, ok := before[o]; !ok {
					before[o] = show(o)
				}
			}
		}
		for o, text := range before {
			if now := show(o); now != text {
				rt.Fatalf("a snapshot changed from\n%s\nto\n%s", text, now)
			}
		}
	})
}

func show(o *Object) string {
	var b strings.Builder
	dumpObject(&b, o)
	return b.String()
}

func TestRegisterMergeIsAMaximum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		gen := rapid.Custom(func(rt *rapid.T) stepResult {
			g := Register{
				Attempt:  uint64(rapid.IntRange(1, 2).Draw(rt, "attempt")),
				Phase:    PhaseDone,
				Executor: machine(byte(rapid.IntRange(1, 3).Draw(rt, "executor"))),
			}
			return stepResult{"s", g.encoded(), uint64(rapid.IntRange(1, 2).Draw(rt, "stamp")), ID{byte(rapid.IntRange(1, 3).Draw(rt, "id"))}, ""}
		})
		all := rapid.SliceOfN(gen, 1, 8).Draw(rt, "results")
		object := ID{byte(rapid.IntRange(0, 255).Draw(rt, "object"))}
		merge := func(results []stepResult) stepResult {
			o := &Object{id: object}
			for _, g := range results {
				o, _ = o.withResult(g)
			}
			return o.results[0]
		}
		want := merge(all)
		if got := merge(rapid.Permutation(all).Draw(rt, "order")); got != want {
			rt.Fatalf("the order decides: %+v or %+v", got, want)
		}
		for _, g := range all {
			if compareResults(object, g, want) > 0 {
				rt.Fatalf("%+v beats the winner %+v", g, want)
			}
		}
	})
}
