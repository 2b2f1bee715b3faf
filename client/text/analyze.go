package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// barWidth is how many cells the time of a run takes up.
const barWidth = 40

// sameRun is how long after the last of its requirements a step may have fallen due, and
// still belong to the same run: clocks of two machines differ a little.
const sameRun = 1000 // milliseconds

// Analyze says where an object's last run spent its time: each step waited and worked,
// the chain of steps that nothing could have overtaken (marked *), and the long pole,
// which is the step of that chain that took longest. fromMs is when the rev was written
// whose run is asked for; 0 where the last run is meant.
func (s Style) Analyze(o *apiv1.ObjectState, fromMs int64) string {
	run := newRun(o.GetSteps(), fromMs)
	key := client.KeyOf(o.GetObject().GetKey())
	switch {
	case len(run.steps) == 0 && fromMs > 0:
		return fmt.Sprintf("no step of %s ran for rev %s: what it changed is read by none\n", key, o.GetObject().GetRev())
	case len(run.steps) == 0:
		return fmt.Sprintf("no step of %s has finished yet\n", key)
	}
	rows := [][]string{{"STEP", "WAITED", "WORKED", "MACHINE", ""}}
	for _, st := range run.steps {
		name, shown := st.GetStep(), st.GetStep()
		if run.critical[name] {
			shown += " *"
		}
		rows = append(rows, []string{shown, tookMs(st.GetStartedMs() - run.due[name]), tookMs(st.GetFinishedMs() - st.GetStartedMs()), st.GetMachine(), run.bar(st)})
	}
	pole := run.pole()
	return table(rows) + fmt.Sprintf("\n%s took %s; the long pole is %s with %s\n",
		key, tookMs(run.end-run.begin), pole.GetStep(), tookMs(run.span(pole)))
}

// run is what an object did last, from the first step that fell due to the last that
// finished.
type run struct {
	steps      []*apiv1.StepStatus // finished, in the order in which they fell due
	critical   map[string]bool
	due        map[string]int64 // when a step could have begun
	begin, end int64
	from       int64 // what finished before is no part of it
}

func newRun(all []*apiv1.StepStatus, from int64) run {
	r := run{from: from, critical: map[string]bool{}, due: map[string]int64{}}
	byName := map[string]*apiv1.StepStatus{}
	var last *apiv1.StepStatus
	for _, st := range all {
		byName[st.GetStep()] = st
		if r.has(st) && (last == nil || st.GetFinishedMs() >= last.GetFinishedMs()) {
			last = st
		}
	}
	if last == nil {
		return r
	}
	for _, st := range all {
		r.due[st.GetStep()] = dueMs(st)
		if p := lastRequired(st, byName); p != nil {
			r.due[st.GetStep()] = min(max(dueMs(st), p.GetFinishedMs()), st.GetStartedMs())
		}
	}
	r.end = last.GetFinishedMs()
	for st := last; st != nil && !r.critical[st.GetStep()]; st = r.before(st, byName) {
		r.critical[st.GetStep()], r.begin = true, r.due[st.GetStep()]
	}
	for _, st := range all {
		if r.has(st) && st.GetFinishedMs() >= r.begin {
			r.steps = append(r.steps, st)
		}
	}
	slices.SortStableFunc(r.steps, func(a, b *apiv1.StepStatus) int {
		return cmp.Compare(r.due[a.GetStep()], r.due[b.GetStep()])
	})
	return r
}

func (r run) has(st *apiv1.StepStatus) bool { return finished(st) && st.GetFinishedMs() >= r.from }

func finished(st *apiv1.StepStatus) bool {
	return !st.GetTarget() && st.GetStartedMs() > 0 && st.GetFinishedMs() >= st.GetStartedMs()
}

// dueMs is since when a step was wanted: never after it began.
func dueMs(st *apiv1.StepStatus) int64 {
	if q := st.GetQueuedMs(); q > 0 && q < st.GetStartedMs() {
		return q
	}
	return st.GetStartedMs()
}

// before is the requirement that a step fell due with; nil where the run began with the
// step.
func (r run) before(st *apiv1.StepStatus, byName map[string]*apiv1.StepStatus) *apiv1.StepStatus {
	p := lastRequired(st, byName)
	if p == nil || !r.has(p) || r.due[st.GetStep()]-p.GetFinishedMs() > sameRun {
		return nil
	}
	return p
}

// lastRequired is the last of a step's requirements to finish, looking through targets.
func lastRequired(st *apiv1.StepStatus, byName map[string]*apiv1.StepStatus) *apiv1.StepStatus {
	var last *apiv1.StepStatus
	for _, p := range requiredSteps(st, byName, len(byName)) {
		if finished(p) && (last == nil || p.GetFinishedMs() > last.GetFinishedMs()) {
			last = p
		}
	}
	return last
}

// requiredSteps looks through targets, which take no time; limit bounds the descent.
func requiredSteps(st *apiv1.StepStatus, byName map[string]*apiv1.StepStatus, limit int) []*apiv1.StepStatus {
	var steps []*apiv1.StepStatus
	for _, name := range st.GetRequires() {
		p := byName[name]
		switch {
		case p == nil || limit == 0:
		case p.GetTarget():
			steps = append(steps, requiredSteps(p, byName, limit-1)...)
		default:
			steps = append(steps, p)
		}
	}
	return steps
}

// span is how long a step held up those that required it.
func (r run) span(st *apiv1.StepStatus) int64 { return st.GetFinishedMs() - r.due[st.GetStep()] }

// pole is the step of the critical chain that took longest.
func (r run) pole() *apiv1.StepStatus {
	var pole *apiv1.StepStatus
	for _, st := range r.steps {
		if r.critical[st.GetStep()] && (pole == nil || r.span(st) > r.span(pole)) {
			pole = st
		}
	}
	return pole
}

// bar draws waiting as dots and work as blocks, on the scale of the whole run.
func (r run) bar(st *apiv1.StepStatus) string {
	cell := func(ms int64) int {
		return int(min(max(ms-r.begin, 0), r.end-r.begin) * barWidth / max(r.end-r.begin, 1))
	}
	due, start, end := cell(r.due[st.GetStep()]), cell(st.GetStartedMs()), cell(st.GetFinishedMs())
	return strings.Repeat(" ", due) + strings.Repeat("·", start-due) + strings.Repeat("█", max(end-start, 1))
}

// Dot draws an object's graph of steps for Graphviz.
func Dot(o *apiv1.ObjectState, fromMs int64) string {
	r := newRun(o.GetSteps(), fromMs)
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=RL\n  node [shape=box]\n", client.KeyOf(o.GetObject().GetKey()).String())
	for _, st := range o.GetSteps() {
		label := st.GetStep() + `\n` + st.GetState()
		if finished(st) {
			label += `\n` + tookMs(st.GetFinishedMs()-st.GetStartedMs())
		}
		style := ""
		if st.GetTarget() {
			style = ", shape=ellipse"
		}
		if r.critical[st.GetStep()] {
			style += ", penwidth=2"
		}
		fmt.Fprintf(&b, "  %q [label=\"%s\"%s]\n", st.GetStep(), label, style)
		for _, p := range st.GetRequires() {
			fmt.Fprintf(&b, "  %q -> %q\n", st.GetStep(), p)
		}
	}
	return b.String() + "}\n"
}
