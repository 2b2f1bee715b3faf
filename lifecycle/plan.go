package lifecycle

import (
	"maps"
	"slices"
)

// PlanStep says what an edit does to one step.
type PlanStep struct {
	Step string
	Loop string
	// Action is "run" (for the first time), "rerun", "stay", "undo", or "wait": it
	// would run, but something that it requires would not be done.
	Action  string
	Machine string // where; for undo, where from
	// Because lists the fields whose change makes the step run again.
	Because []string
	// Blocked says why a decision would fail, or what the step would wait for.
	Blocked string
	// Outputs are what a decision would write; nil for a step that acts, and for one
	// that draws at random.
	Outputs Outputs
}

// Plan tells, before anything happens, which steps an edit would run again and
// where. Decisions are made for real, on the local view; a step that acts is taken
// to write what it expects to, or wrote before. derive adds to the object what its kind
// computes from other objects, and is called again after each decision: a pod that
// would move reads of its new machine. known is what is kept of the object before, if
// anything; it stays as it is.
func (g *Graph) Plan(known *Memo, before, after *Object, goal string, env Env, view View, derive func(*Object) *Object) []PlanStep {
	needed := set(0)
	if n, ok := g.index[goal]; ok {
		needed = n.pulls
	}
	p := &planner{g: g, before: derive(before), after: derive(g.without(after, needed)), env: env, derive: derive}
	p.reads = known.fork()
	p.reads.read(g, p.before)
	p.old = p.reads.lend()
	p.reads.read(g, p.after)
	p.view = &foresight{View: view}
	steps := make([]PlanStep, 0, needed.size())
	for i := range needed.all {
		if n := g.nodes[i]; !n.concerns(p.after) {
			continue
		} else if n.step != nil {
			steps = append(steps, p.up(n))
		} else if n.requires&p.stuck != 0 {
			p.stuck.add(i)
		}
	}
	for _, n := range slices.Backward(g.nodes) {
		r := p.before.Results[n.name]
		if (made(n, &r) || owns(n, &r)) && (!needed.has(n.at) || p.moves(n, &r)) {
			holder := r.Executor
			if n.step.Where != OnMachine {
				holder = env.Executor
			}
			steps = append(steps, PlanStep{Step: n.name, Loop: n.loop, Action: "undo", Machine: holder})
		}
	}
	return steps
}

// owns reports whether the step may have children, which go when it is not needed.
func owns(n *node, r *Result) bool {
	return n.step != nil && n.step.Children != "" && r.Phase != PhaseNever && r.Phase != PhaseUndone
}

type planner struct {
	g             *Graph
	before, after *Object
	old           []readField // before, sorted
	reads         *Memo       // after
	env           Env
	view          *foresight
	derive        func(*Object) *Object
	stuck         set // steps that would not be done
}

// foresight is a view that gives away no random numbers: what a decision would draw
// is not known before it is made.
type foresight struct {
	View
	drew bool
}

// Random notes that the decision is not to be relied on.
func (f *foresight) Random() uint64 {
	f.drew = true
	return 0
}

func clone(o *Object) *Object {
	c := *o
	c.Results = maps.Clone(o.Results)
	return &c
}

// without forgets what steps wrote that are not needed any more.
func (g *Graph) without(o *Object, needed set) *Object {
	rest := o
	for _, n := range g.nodes {
		if needed.has(n.at) {
			continue
		}
		if r := o.Results[n.name]; len(r.Outputs) > 0 {
			if rest == o {
				rest = clone(o)
			}
			r.Outputs = nil
			rest.Results[n.name] = r
		}
	}
	return rest
}

func (p *planner) moves(n *node, r *Result) bool {
	return n.step.Where == OnMachine && p.env.Machine != "" && r.Executor != p.env.Machine && !p.env.Removed(r.Executor)
}

// up judges one step that the goal needs, and lets the steps behind it see what it
// would write.
func (p *planner) up(n *node) PlanStep {
	r := p.before.Results[n.name]
	s := PlanStep{Step: n.name, Loop: n.loop, Action: "stay", Machine: p.env.Executor}
	place := ""
	if n.step.Where == OnMachine {
		place = p.env.Machine
		s.Machine = place
	}
	if r.Phase == PhaseDone && r.Reads == p.reads.hash(n.at, place) && (place == "" || r.Executor == place) {
		s.Machine = r.Executor
		return s
	}
	s.Action = "run"
	if r.Phase == PhaseDone {
		s.Action = "rerun"
	}
	s.Because = changed(p.old, p.reads.all, n.at)
	if r.Phase == PhaseDone && p.moves(n, &r) && !slices.Contains(s.Because, machineField) {
		s.Because = append(s.Because, machineField)
	}
	if stuck := n.requires & p.stuck; stuck != 0 || s.Machine == "" {
		p.stuck.add(n.at)
		s.Action, s.Blocked = "wait", "for a machine"
		if stuck != 0 {
			s.Blocked = "for " + p.g.nodes[stuck.first()].name
		}
		return s
	}
	p.foretell(n, &s)
	return s
}

// foretell makes what the step would write visible behind it.
func (p *planner) foretell(n *node, s *PlanStep) {
	if n.step.Expect == nil && n.step.Decide == nil {
		return
	}
	in := inputsOf(p.after, n, p.reads, s.Machine)
	if n.step.Expect != nil {
		p.write(n, n.step.Expect(in))
	}
	if n.step.Decide == nil {
		return
	}
	p.view.drew = false
	out, err := n.step.Decide(p.view, in)
	if err != nil {
		s.Blocked = err.Error()
		p.stuck.add(n.at)
		return
	}
	p.write(n, out)
	if !p.view.drew {
		s.Outputs = out
	}
}

func (p *planner) write(n *node, out Outputs) {
	r := p.after.Results[n.name]
	if maps.Equal(r.Outputs, out) {
		return
	}
	r.Outputs = out
	p.after = clone(p.after)
	p.after.Results[n.name] = r
	if m, ok := out[machineField]; ok {
		p.env.Machine = unquote(m)
	}
	p.after = p.derive(p.after)
	p.reads.read(p.g, p.after)
}

// machineField names the machine that steps on a machine run on.
const machineField = "status.machine"

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// changed lists the paths whose values differ for a reader, sorted.
func changed(a, b []readField, reader int) (paths []string) {
	note := func(f *readField) {
		if f.readers.has(reader) && (len(paths) == 0 || paths[len(paths)-1] != f.path) {
			paths = append(paths, f.path)
		}
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].compare(&b[0]) < 0:
			note(&a[0])
			a = a[1:]
		case len(a) == 0 || b[0].compare(&a[0]) < 0:
			note(&b[0])
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return paths
}
