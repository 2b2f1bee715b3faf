package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// checkRun holds what is about to happen against the laws.
func (l *life) checkRun(m *machine, r Run) {
	n := l.w.g.index[r.Step.Name]
	if m.running[n.name] != nil {
		l.t.Fatalf("%s: %s starts, and it is under way already", m.name, n.name)
	}
	if r.Undo {
		l.checkUndo(m, n, r)
		return
	}
	l.checkPlace(m, n)
	needed := l.w.g.index[l.w.goal].pulls
	for i := range n.after.all {
		e := l.w.g.nodes[i]
		if n.requires.has(i) && !l.done(e) {
			l.t.Fatalf("%s: %s starts, and %s, which it requires, is not done", m.name, n.name, e.name)
		}
		if needed.has(i) && l.place(e) == m.name && l.underWay(e) {
			l.t.Fatalf("%s: %s starts, and %s, which goes before it, is under way", m.name, n.name, e.name)
		}
	}
}

// done: with the reads that are current, where it belongs; a target if all that it
// requires is.
func (l *life) done(n *node) bool {
	for i := range n.requires.all {
		if !l.done(l.w.g.nodes[i]) {
			return false
		}
	}
	if n.step == nil || !n.concerns(l.w.o) {
		return true
	}
	r := l.w.o.Results[n.name]
	return r.Phase == PhaseDone && r.Reads == l.w.g.ReadsHash(l.w.o, n.name, l.w.home()) &&
		(n.step.Where != OnMachine || r.Executor == l.w.home())
}

func (l *life) underWay(n *node) bool {
	a := l.w.machine(l.place(n)).running[n.name]
	return a != nil && !a.run.Stray
}

func (l *life) place(n *node) string {
	if n.step == nil || n.step.Where != OnMachine {
		return l.w.executor()
	}
	return l.w.home()
}

// checkPlace: a step runs where it belongs, and what it makes is made in one place.
func (l *life) checkPlace(m *machine, n *node) {
	if place := l.place(n); m.name != place {
		l.t.Fatalf("%s starts on %s; its place is %s", n.name, m.name, place)
	}
	for _, o := range l.w.machines {
		if n.step.Where == OnMachine && n.step.Undo != nil && o != m && o.effects[n.name] && o.up && l.w.o.Results[n.name].Executor == o.name && l.w.o.Results[n.name].Phase != PhaseUndone {
			l.t.Fatalf("%s starts on %s, and %s has not let go of it", n.name, m.name, o.name)
		}
	}
}

// checkUndo: what stands behind a step, and is to go as well, is gone from the machine.
func (l *life) checkUndo(m *machine, n *node, r Run) {
	if r.Step.Undo == nil {
		return
	}
	needed := set(0)
	if goal := l.w.g.index[l.w.goal]; goal != nil {
		needed = goal.pulls
	}
	for i := range n.above.all {
		u := l.w.g.nodes[i]
		if u.step == nil || u.step.Where != OnMachine || n.step.Where != OnMachine {
			continue
		}
		stays := needed.has(i) && l.w.home() == m.name
		if a := m.running[u.name]; a != nil && !stays {
			l.t.Fatalf("%s: %s is taken back, and %s, which stands behind it, is under way", m.name, n.name, u.name)
		}
		if m.effects[u.name] && !stays {
			l.t.Fatalf("%s: %s is taken back before %s, which stands behind it; goal %s\n%s", m.name, n.name, u.name, l.w.goal, l.w.views())
		}
		if m.effects[u.name] && u.below.has(n.at) {
			l.t.Fatalf("%s: %s is taken back, and %s requires it", m.name, n.name, u.name)
		}
	}
}

// checkPure: the same object gives the same evaluation, and is not changed.
func (l *life) checkPure() {
	for _, m := range l.w.machines {
		before := *l.w.o
		before.Fields, before.Results = before.Fields.Clone(), maps.Clone(before.Results)
		a, b := l.w.evaluate(m), l.w.evaluate(m)
		for i := range a.Run { // functions can't be compared; the step is the graph's own
			if a.Run[i].Step != b.Run[i].Step {
				l.t.Fatalf("%s: two evaluations differ in what they run", m.name)
			}
			a.Run[i].Step, b.Run[i].Step = nil, nil
		}
		if !reflect.DeepEqual(a, b) {
			l.t.Fatalf("%s: two evaluations of one object differ:\n%+v\n%+v", m.name, a, b)
		}
		if !reflect.DeepEqual(&before, l.w.o) {
			l.t.Fatalf("%s: an evaluation changed its object", m.name)
		}
		l.checkVerdict(m, &a)
	}
}

// checkVerdict: converged means that the goal is reached; else something is named.
func (l *life) checkVerdict(m *machine, e *Evaluation) {
	goal := l.w.g.index[e.Goal]
	if e.Verdict == Converged {
		if !l.done(goal) && len(l.w.skip) == 0 {
			l.t.Fatalf("%s calls it converged, and %s is not reached", m.name, e.Goal)
		}
		return
	}
	if chain := l.w.g.Explain(e); len(chain) == 0 && l.w.g.onlyWanted(e) {
		return
	} else if len(chain) == 0 {
		l.t.Fatalf("%s calls it %s and names no cause: %+v", m.name, e.Verdict, e.Steps)
	}
}

// onlyWanted: what is going on does not concern the goal itself.
func (g *Graph) onlyWanted(e *Evaluation) bool {
	for i, s := range e.Steps {
		if g.index[e.Goal].hard.has(i) && s.State != StateDone {
			return false
		}
	}
	return true
}

// checkRest: everything works, so the goal is reached, everywhere one sees the same,
// and no machine holds anything that is not the object's.
func (l *life) checkRest() {
	needed := l.w.g.index[l.w.goal].pulls
	for _, m := range l.w.machines {
		e := l.w.evaluate(m)
		if e.Verdict != Converged || len(e.Run)+len(e.Cancel) > 0 {
			l.t.Fatalf("%s calls it %s for %s, and everything works\n%s", m.name, e.Verdict, l.w.goal, l.w.views())
		}
		for step := range m.effects {
			n := l.w.g.index[step]
			if n.step.Where == OnMachine && (m.name != l.w.home() || !needed.has(n.at)) {
				l.t.Fatalf("%s still holds %s, and the object is on %s for %s\n%s", m.name, step, l.w.home(), l.w.goal, l.w.views())
			}
		}
	}
}

// views prints what each machine sees.
func (w *world) views() string {
	var views []string
	for _, m := range w.machines {
		e := w.evaluate(m)
		views = append(views, fmt.Sprintf("%s\nruns %d steps; under way: %v; made: %v", w.show(&e, m.name), len(e.Run), slices.Sorted(maps.Keys(m.running)), slices.Sorted(maps.Keys(m.effects))))
	}
	return strings.Join(append(views, w.log...), "\n")
}
