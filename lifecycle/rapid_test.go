package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
)

// TestLaws lets random lifecycles live: edits, failures, cancelled actions, moves,
// machines that fail and return. The laws are checked whenever a step starts or is taken
// back; in the end, once everything works again, the goal is reached everywhere.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		t.Repeat(l.actions())
		l.heal()
		l.checkRest()
	})
}

// TestNamesTheCause breaks one step for good: then the object either does not need it,
// or says that this step, of all, is what holds it up.
func TestNamesTheCause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		t.Repeat(l.actions())
		l.heal()
		name := rapid.SampledFrom(l.stepNames()).Draw(t, "broken")
		l.w.fails[name] = &failure{code: "Broken", message: "broken", wait: rapid.Bool().Draw(t, "wait"), times: -1}
		l.w.edit(api.Fields{"spec.a": `"new"`, "spec.b": `"new"`, "spec.size": `"new"`})
		l.w.settle()
		e := l.w.evaluate(l.w.machines[0])
		s, _ := e.Step(name)
		if s.State != StateBlocked && s.State != StateRetrying {
			l.checkRest()
			return
		}
		if !l.w.g.index[l.w.goal].hard.has(l.w.g.index[name].at) {
			return
		}
		chain := l.w.g.Explain(&e)
		if last := chain[len(chain)-1]; last.Step != name || last.Message != "broken" {
			t.Fatalf("%s is broken, and the cause named is %s: %s", name, last.Step, last.State)
		}
		if e.Verdict != Blocked && e.Verdict != Failed {
			t.Fatalf("%s is broken, and the verdict is %s", name, e.Verdict)
		}
	})
}

// TestPlanIsWhatHappens compares a plan with what then runs.
func TestPlanIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		t.Repeat(l.actions())
		l.heal()
		w := l.w
		after := *w.o
		after.Fields = w.o.Fields.Clone()
		for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(specPaths), 1, 3, rapid.ID).Draw(t, "edited") {
			after.Fields[path] = api.Str(rapid.StringMatching("[a-z]{3}").Draw(t, "value"))
		}
		author := drawAuthor(t)
		w.wrote(&after, author)
		goal := rapid.SampledFrom(w.g.Goals()).Draw(t, "goal")
		w.place = rapid.SampledFrom(w.machines).Draw(t, "place").name
		plan := w.g.Plan(nil, w.o, &after, goal, w.env(w.machine(w.executor())), nil, same)
		var known Memo
		known.read(w.g, w.o)
		if again := w.g.Plan(&known, w.o, &after, goal, w.env(w.machine(w.executor())), nil, same); !reflect.DeepEqual(again, plan) {
			t.Fatalf("with what is known of the object, the plan is %+v, not %+v", again, plan)
		}
		want := map[string]bool{}
		for _, p := range plan {
			switch p.Action {
			case "run", "rerun":
				want["run "+p.Step] = true
			case "undo":
				want["undo "+p.Step+" on "+p.Machine] = true
			}
		}
		got := map[string]bool{}
		check := w.onRun
		w.onRun = func(m *machine, r Run) {
			check(m, r)
			switch {
			case r.Undo && r.Step.Undo != nil:
				got["undo "+r.Step.Name+" on "+m.name] = true
			case !r.Undo:
				got["run "+r.Step.Name] = true
			}
		}
		w.editAs(author, after.Fields)
		w.goal = goal
		w.settle()
		if !maps.Equal(want, got) {
			t.Fatalf("planned %v\nhappened %v", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
		}
	})
}

// life is a random lifecycle in a world.
type life struct {
	t *rapid.T
	w *world
}

var specPaths = []string{"spec.a", "spec.b", "spec.c", "spec.size"}

func newLife(t *rapid.T) *life {
	text := drawGraph(t)
	l := &life{t: t}
	constant := map[string]bool{}
	g, err := parseGraph(text, constant, func(s Step, in Inputs) Outputs { return l.w.outputs(s, in) })
	if err != nil {
		t.Skipf("refused: %v", err)
	}
	l.w = newWorld(t, g, "m1", "m2", "m3")
	l.w.constant = constant
	l.w.onRun = l.checkRun
	l.w.goal = rapid.SampledFrom(g.Goals()).Draw(t, "goal")
	l.w.wrote(l.w.o, drawAuthor(t))
	l.w.settle()
	return l
}

// drawAuthor draws who edits: some steps listen to alice alone.
func drawAuthor(t *rapid.T) string {
	return rapid.SampledFrom([]string{"user:alice", "user:bob"}).Draw(t, "author")
}

// drawGraph writes a graph in the language of the transcripts. Steps mostly look back,
// so that most graphs have no cycle; names say nothing about the order.
func drawGraph(t *rapid.T) string {
	n := rapid.IntRange(2, 7).Draw(t, "steps")
	names := rapid.Permutation([]string{"ant", "bee", "cat", "dog", "elk", "fox", "gnu"}).Draw(t, "names")[:n]
	var b strings.Builder
	fmt.Fprintln(&b, "step home decides on=executor reads=spec.size writes=status.machine")
	for i, name := range names {
		earlier := append([]string{"home"}, names[:i]...)
		fmt.Fprintf(&b, "step %s writes=status.%s", name, name)
		some := func(key, prefix string, from []string, most int) {
			if list := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, min(most, len(from)), rapid.ID).Draw(t, key); len(list) > 0 {
				fmt.Fprintf(&b, " %s=%s%s", key, prefix, strings.Join(list, ","+prefix))
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "listens") == 0 {
			fmt.Fprint(&b, " by=alice")
		}
		if rapid.IntRange(0, 2).Draw(t, "place") == 0 {
			fmt.Fprint(&b, " on=executor")
		} else {
			fmt.Fprint(&b, " requires=home")
		}
		some("requires", "", earlier, 2)
		some("after", "", earlier, 1)
		some("wants", "", earlier, 1)
		some("before", "", names, 1)
		some("reads", "spec.", []string{"a", "b", "c"}, 2)
		if i > 0 {
			some("reads", "status.", names[:i], 2)
		}
		for _, flag := range []string{"undo", "undo", "decides", "constant"} {
			if rapid.IntRange(0, 2).Draw(t, flag) == 0 && (flag != "undo" || !strings.Contains(b.String()[strings.LastIndex(b.String(), "\n"):], "decides")) {
				fmt.Fprintf(&b, " %s", flag)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "target half requires=%s\ntarget all requires=%s\n", names[0], strings.Join(names, ","))
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), " undo decides", " undo"), " undo constant decides", " undo constant")
}

func (l *life) stepNames() []string { return l.w.g.Downward() }

// actions are what may happen, each followed by all that comes of it.
func (l *life) actions() map[string]func(*rapid.T) {
	w := l.w
	step := func(t *rapid.T) string { return rapid.SampledFrom(l.stepNames()).Draw(t, "step") }
	some := func(t *rapid.T) *machine { return rapid.SampledFrom(w.machines).Draw(t, "machine") }
	all := map[string]func(*rapid.T){
		"edit": func(t *rapid.T) {
			w.editAs(drawAuthor(t), api.Fields{rapid.SampledFrom(specPaths).Draw(t, "path"): api.Str(rapid.StringMatching("[xyz]").Draw(t, "value"))})
		},
		"goal": func(t *rapid.T) { w.goal = rapid.SampledFrom(w.g.Goals()).Draw(t, "goal") },
		"move": func(t *rapid.T) { w.place = some(t).name; w.edit(api.Fields{"spec.size": api.Str(w.place)}) },
		"fail": func(t *rapid.T) { w.fails[step(t)] = drawFailure(t) },
		"stuck": func(t *rapid.T) {
			w.undoFail[step(t)] = &failure{message: "stuck", times: rapid.IntRange(1, 3).Draw(t, "times")}
		},
		"slow": func(t *rapid.T) { w.slow[step(t)] = true },
		"end":  func(t *rapid.T) { w.finishAll(step(t)) },
		"pass": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
		},
		"wake": func(*rapid.T) { w.wakeAll() },
		"restart": func(t *rapid.T) {
			if m := some(t); m.up {
				m.boot()
			}
		},
		"down": func(t *rapid.T) { w.machineEvent("down", some(t)) },
		"lost": func(t *rapid.T) {
			if m := some(t); !m.up {
				m.lost = true
			}
		},
		"up": func(t *rapid.T) {
			if m := some(t); !m.up {
				m.boot()
			}
		},
	}
	for name, do := range all {
		all[name] = func(t *rapid.T) { do(t); w.settle(); l.checkPure() }
	}
	return all
}

func drawFailure(t *rapid.T) *failure {
	return &failure{code: "Broken", message: "broken for a while", wait: rapid.Bool().Draw(t, "wait"), times: rapid.IntRange(1, 3).Draw(t, "times")}
}

// heal makes everything work again, and lets time pass.
func (l *life) heal() {
	w := l.w
	w.fails, w.undoFail = map[string]*failure{}, map[string]*failure{}
	for _, m := range w.machines {
		if !m.up {
			m.boot()
		}
	}
	for range 4 {
		for step := range w.slow {
			w.finishAll(step)
		}
		w.wakeAll()
		w.now = w.now.Add(time.Hour)
		w.settle()
	}
}
