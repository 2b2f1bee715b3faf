package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"time"

	"starling.dev/starling/api"
)

// world runs the lifecycle of one object on a few machines by hand: it carries out what
// evaluations ask for, as a peer would, at once and in order. All machines see the same
// object; what each of them makes and remembers is its own.
type world struct {
	t        failer
	g        *Graph
	o        *Object
	goal     string
	now      time.Time
	machines []*machine
	lead     string              // who executes; empty: the first that is up
	place    string              // where a step that writes status.machine puts the object
	fails    map[string]*failure // by step
	undoFail map[string]*failure
	slow     map[string]bool // steps whose actions end only when told to
	skip     map[string]bool
	disagree map[string]bool // steps that write something else each time
	constant map[string]bool // steps whose outputs don't depend on what they read
	// onRun is called before anything is carried out; rapid's laws live there.
	onRun func(m *machine, r Run)
	log   []string
}

// failer is what tests and property tests have in common.
type failer interface {
	Fatalf(format string, args ...any)
}

type machine struct {
	name                    string
	up, lost, removed       bool
	running                 map[string]*act
	effects, adopted, woken map[string]bool
	tried                   map[string]bool
	feedback                map[string]Feedback
}

type act struct {
	run   Run
	since time.Time
}

type failure struct {
	code, message string
	wait          bool
	times         int // -1: until mended
}

func newWorld(t failer, g *Graph, names ...string) *world {
	w := &world{
		t: t, g: g, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		fails: map[string]*failure{}, undoFail: map[string]*failure{}, slow: map[string]bool{}, skip: map[string]bool{}, constant: map[string]bool{}, disagree: map[string]bool{},
	}
	for _, name := range names {
		m := &machine{name: name, effects: map[string]bool{}}
		m.boot()
		w.machines = append(w.machines, m)
	}
	w.place = names[0]
	w.o = &Object{Key: api.Key{Kind: "Thing", Name: "it"}, ID: "1", Rev: 1, Fields: api.Fields{}, Results: map[string]Result{}}
	return w
}

// boot starts a machine: it knows what it made, from its disk, and nothing else.
func (m *machine) boot() {
	m.up, m.lost = true, false
	m.running, m.adopted, m.woken = map[string]*act{}, map[string]bool{}, map[string]bool{}
	m.tried, m.feedback = map[string]bool{}, map[string]Feedback{}
}

func (w *world) machine(name string) *machine {
	for _, m := range w.machines {
		if m.name == name {
			return m
		}
	}
	w.t.Fatalf("there is no machine %q", name)
	return nil
}

func (w *world) executor() string {
	if w.lead != "" && w.machine(w.lead).up {
		return w.lead
	}
	for _, m := range w.machines {
		if m.up && !m.removed {
			return m.name
		}
	}
	return ""
}

func (w *world) home() string { return w.o.Status().String("status.machine") }

func (w *world) env(m *machine) Env {
	return Env{
		Self: m.name, Executor: w.executor(), Machine: w.home(), Now: w.now,
		Member: func(name string) Member {
			o := w.machine(name)
			return Member{Alive: o.up, Silent: o.lost}
		},
		Removed: func(name string) bool { return w.machine(name).removed },
		Running: func(step string) (Running, bool) {
			a, ok := m.running[step]
			if !ok {
				return Running{}, false
			}
			return Running{Reads: a.run.Reads, Since: a.since, Undo: a.run.Undo, Stray: a.run.Stray}, true
		},
		Adopt:    func(step string) bool { return !m.adopted[step] },
		Effects:  func(step string) bool { return m.effects[step] },
		MayRetry: func(step string) bool { return !m.tried[step] || m.woken[step] },
		Feedback: func(step string) Feedback { return m.feedback[step] },
		Skip:     func(step string) bool { return w.skip[step] },
	}
}

func (w *world) evaluate(m *machine) Evaluation { return w.g.Evaluate(w.o, w.goal, w.env(m)) }

// settle carries out evaluations until nothing is left to do now.
func (w *world) settle() {
	for round := 0; ; round++ {
		if round > 300 {
			w.t.Fatalf("no rest after %d rounds; the last that happened:\n%s", round, strings.Join(w.log[max(0, len(w.log)-20):], "\n"))
		}
		busy := false
		for _, m := range w.machines {
			if m.up && !m.removed && w.turn(m) {
				busy = true
			}
		}
		if !busy {
			return
		}
	}
}

// turn evaluates once on a machine, and carries out what comes of it.
func (w *world) turn(m *machine) bool {
	e := w.evaluate(m)
	for _, step := range e.Cancel {
		if a := m.running[step]; a != nil && !a.run.Undo {
			w.say(m, "cancelled", step, "")
			delete(m.running, step)
		}
	}
	for _, r := range e.Run {
		before := w.o
		if m.running[r.Step.Name] == nil {
			w.begin(m, r)
		}
		if w.o != before {
			break // what else was to run is judged again
		}
	}
	return len(e.Cancel)+len(e.Run) > 0
}

func (w *world) say(m *machine, what, step, more string) {
	if more != "" {
		more = ": " + more
	}
	w.log = append(w.log, fmt.Sprintf("%s %s %s%s", m.name, what, step, more))
}

func (w *world) begin(m *machine, r Run) {
	if w.onRun != nil {
		w.onRun(m, r)
	}
	name := r.Step.Name
	if r.Feedback {
		m.feedback[name] = m.feedback[name].Note(r.Generation, w.now)
	}
	switch {
	case r.Undo && r.Step.Undo == nil:
		w.say(m, "forgot", name, "")
		w.write(m, r, Result{Phase: PhaseUndone})
		return
	case !r.Undo && r.Step.Undo != nil:
		m.effects[name] = true
	}
	m.running[name] = &act{run: r, since: w.now}
	if w.slow[name] {
		w.say(m, map[bool]string{false: "began", true: "began to undo"}[r.Undo], name, "")
		return
	}
	w.finish(m, name)
}

// finish ends an action.
func (w *world) finish(m *machine, name string) {
	a := m.running[name]
	delete(m.running, name)
	r := a.run
	if r.Undo {
		w.undone(m, r)
		return
	}
	m.adopted[name] = true
	var out Outputs
	var err error
	if f := w.fails[name].next(); f != nil {
		err = f
	} else if r.Step.Decide != nil {
		out, err = r.Step.Decide(nil, r.Inputs)
	} else {
		out, err = r.Step.Do(context.Background(), nil, r.Inputs)
	}
	if err != nil {
		w.say(m, "failed", name, err.Error())
		w.write(m, r, w.failed(m, name, err))
		return
	}
	w.say(m, map[bool]string{false: "did", true: "decided"}[r.Step.Decide != nil], name, "")
	delete(m.tried, name)
	w.write(m, r, Result{Phase: PhaseDone, Outputs: out})
}

func (f *failure) next() error {
	if f == nil || f.times == 0 {
		return nil
	}
	f.times--
	return &Error{Code: f.code, Message: f.message, Wait: f.wait}
}

func (w *world) failed(m *machine, name string, err error) Result {
	old := w.o.Results[name]
	r := Result{Phase: PhaseFailed, Outputs: old.Outputs, Code: "StepFailed", Message: err.Error(), Failures: old.Failures + 1}
	var known *Error
	if errors.As(err, &known) {
		r.Code = known.Code
		if known.Outputs != nil {
			r.Outputs = known.Outputs
		}
		if known.Wait {
			m.tried[name], m.woken[name] = true, false
			return r
		}
	}
	s, _ := w.g.Step(name)
	r.RetryAt = w.now.Add(s.Retry.Delay(r.Failures))
	return r
}

func (w *world) undone(m *machine, r Run) {
	name := r.Step.Name
	if f := w.undoFail[name].next(); f != nil {
		w.say(m, "failed to undo", name, f.Error())
		failed := w.failed(m, name, f)
		failed.Code = UndoFailed
		w.write(m, r, failed)
		return
	}
	delete(m.effects, name)
	delete(m.adopted, name)
	if r.Stray {
		w.say(m, "cleaned up", name, "")
		return
	}
	w.say(m, "undid", name, "")
	w.write(m, r, Result{Phase: PhaseUndone})
}

func (w *world) write(m *machine, run Run, r Result) {
	r.Attempt = w.o.Results[run.Step.Name].Attempt + 1
	r.Reads, r.Executor, r.Finished = run.Reads, m.name, w.now
	next := *w.o
	next.Results = maps.Clone(w.o.Results)
	next.Results[run.Step.Name] = r
	w.o = &next
}

// edit writes fields of the spec, as alice.
func (w *world) edit(fields api.Fields) { w.editAs("user:alice", fields) }

func (w *world) editAs(author string, fields api.Fields) {
	next := *w.o
	next.Fields = w.o.Fields.Clone()
	maps.Copy(next.Fields, fields)
	next.Rev++
	w.wrote(&next, author)
	w.o = &next
}

// wrote notes that the object's spec is as the author left it.
func (w *world) wrote(o *Object, author string) {
	o.Left = maps.Clone(o.Left)
	for step, authors := range w.g.Listening() {
		if authors.Has(author) {
			if o.Left == nil {
				o.Left = map[string]api.Fields{}
			}
			o.Left[step] = o.Fields
		}
	}
}

// outputs is what a step of this world writes: where to be, or a digest of what it read.
func (w *world) outputs(s Step, in Inputs) Outputs {
	out := Outputs{}
	for _, path := range s.Outputs {
		h := fnv.New32a()
		if !w.constant[s.Name] {
			for _, p := range slices.Sorted(maps.Keys(in.Fields)) {
				fmt.Fprintf(h, "%s=%s;", p, in.Fields[p])
			}
		}
		if w.disagree[s.Name] {
			fmt.Fprint(h, in.Attempt)
		}
		out[path] = api.Str(fmt.Sprintf("%s-%08x", s.Name, h.Sum32()))
		if path == machineField {
			out[path] = api.Str(w.place)
		}
		if path == machineField && w.disagree[s.Name] {
			out[path] = api.Str(w.machines[int(in.Attempt)%len(w.machines)].name)
		}
	}
	return out
}

// takeLog returns what happened since it was last called.
func (w *world) takeLog() string {
	out := strings.Join(w.log, "\n")
	w.log = nil
	return out
}
