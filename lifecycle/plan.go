package lifecycle

import (
	"maps"
	"slices"

	"starling.dev/starling/api"
)

// PlanStep says what an edit does to one step.
type PlanStep struct {
	Step string
	Loop string
	// Action is "run" (for the first time), "rerun", "stay" or "undo".
	Action  string
	Machine string // where; for undo, where from
	// Because lists the fields whose change makes the step run again.
	Because []string
	// Blocked says why a decision would fail.
	Blocked string
	// Outputs are what a decision would write; nil for a step that acts.
	Outputs Outputs
}

// Plan tells, before anything happens, which steps an edit would run again and
// where. Decisions are made for real, on the local view; a step that acts is taken
// to write what it wrote before. derive adds to the object what its kind computes from
// other objects, and is called again after each decision: a pod that would move reads
// of its new machine.
func (g *Graph) Plan(before, after *Object, goal string, env Env, view View, derive func(*Object) *Object) []PlanStep {
	p := &planner{g: g, before: derive(before), after: derive(clone(after)), env: env, view: view, derive: derive}
	before = p.before
	needed := g.closure(goal)
	var steps []PlanStep
	for _, n := range g.nodes {
		if n.step != nil && needed[n] {
			steps = append(steps, p.up(n))
		}
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := g.nodes[i]
		if r := before.Results[n.name]; made(n, r) && (!needed[n] || p.moves(n, r)) {
			steps = append(steps, PlanStep{Step: n.name, Loop: n.loop, Action: "undo", Machine: r.Executor})
		}
	}
	return steps
}

type planner struct {
	g      *Graph
	before *Object
	after  *Object
	env    Env
	view   View
	derive func(*Object) *Object
}

func clone(o *Object) *Object {
	c := *o
	c.Results = maps.Clone(o.Results)
	return &c
}

func (p *planner) moves(n *node, r Result) bool {
	return n.step.Where == OnMachine && p.env.Machine != "" && r.Executor != p.env.Machine
}

// up judges one step that the goal needs, and lets the steps behind it see what a
// decision would write.
func (p *planner) up(n *node) PlanStep {
	r := p.before.Results[n.name]
	s := PlanStep{Step: n.name, Loop: n.loop, Action: "stay", Machine: p.env.Executor}
	place := ""
	if n.step.Where == OnMachine {
		place = p.env.Machine
		s.Machine = place
	}
	fields := selectFields(p.after, n.reads)
	if r.Phase == PhaseDone && r.Reads == hashReads(fields, place) && (place == "" || r.Executor == place) {
		s.Machine = r.Executor
		return s
	}
	s.Action = "run"
	if r.Phase == PhaseDone {
		s.Action = "rerun"
	}
	s.Because = changed(selectFields(p.before, n.reads), fields)
	if p.moves(n, r) && r.Phase == PhaseDone && !slices.Contains(s.Because, machineField) {
		s.Because = append(s.Because, machineField)
	}
	if n.step.Decide != nil {
		p.decide(n, &s, inputs(p.after, n, fields, s.Machine))
	}
	return s
}

// decide runs the decision and makes its outputs visible behind it.
func (p *planner) decide(n *node, s *PlanStep, in Inputs) {
	out, err := n.step.Decide(p.view, in)
	if err != nil {
		s.Blocked = err.Error()
		return
	}
	s.Outputs = out
	r := p.after.Results[n.name]
	r.Outputs = out
	p.after.Results[n.name] = r
	if m, ok := out[machineField]; ok {
		p.env.Machine = unquote(m)
	}
	p.after = p.derive(p.after)
}

// machineField names the machine that steps on a machine run on.
const machineField = "status.machine"

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// changed lists the paths whose values differ, sorted.
func changed(a, b api.Fields) []string {
	var paths []string
	for path, v := range a {
		if w, ok := b[path]; !ok || v != w {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
