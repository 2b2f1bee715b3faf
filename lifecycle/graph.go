package lifecycle

import (
	"fmt"
	"slices"
	"strings"
)

// Target is a named point that steps order themselves around. It does nothing; it
// is reached when everything that it requires is done.
type Target struct {
	Name     string
	Doc      string
	Requires []string
	After    []string
	// Goal targets may be switched to.
	Goal bool
}

// Graph is the compiled lifecycle of one kind: every step of every loop, and the
// targets, in an order that respects each declaration. It is immutable.
type Graph struct {
	Kind  string
	nodes []*node // topological, ties broken by name
	index map[string]*node
}

// node is a step or a target.
type node struct {
	name     string
	loop     string
	step     *Step // nil for a target
	target   *Target
	requires []*node // hard
	after    []*node // order only: After, Wants and others' Before
	needed   []*node // who requires this one (reverse of requires)
	reads    []pattern
	outputs  []pattern
}

func (n *node) acts() bool { return n.step != nil && n.step.Do != nil }

// NewGraph compiles the loops of one kind. It refuses, with the offending names: a
// second owner of a field or of a claim, a requirement that does not exist, a step
// without a timeout or an action, and a cycle (other than through declared feedback).
func NewGraph(kind string, targets []Target, loops []Loop) (*Graph, error) {
	g := &Graph{Kind: kind, index: map[string]*node{}}
	for i := range targets {
		if err := g.add(&node{name: targets[i].Name, target: &targets[i]}); err != nil {
			return nil, err
		}
	}
	for _, l := range loops {
		for i := range l.Steps {
			s := &l.Steps[i]
			if err := checkStep(l, s); err != nil {
				return nil, err
			}
			n := &node{name: s.Name, loop: l.Name, step: s}
			for _, r := range s.Reads {
				n.reads = append(n.reads, newPattern(r))
			}
			for _, o := range s.Outputs {
				n.outputs = append(n.outputs, newPattern(o))
			}
			if err := g.add(n); err != nil {
				return nil, err
			}
		}
	}
	if err := g.checkOwners(loops); err != nil {
		return nil, err
	}
	if err := g.link(); err != nil {
		return nil, err
	}
	return g, g.sort()
}

func (g *Graph) add(n *node) error {
	if old, ok := g.index[n.name]; ok {
		return fmt.Errorf("%s: %q is declared twice, by loop %q and by loop %q; rename one", g.Kind, n.name, old.loop, n.loop)
	}
	g.index[n.name] = n
	g.nodes = append(g.nodes, n)
	return nil
}

func checkStep(l Loop, s *Step) error {
	where := fmt.Sprintf("loop %q, step %q", l.Name, s.Name)
	switch {
	case (s.Decide == nil) == (s.Do == nil):
		return fmt.Errorf("%s: set exactly one of Decide and Do", where)
	case s.Timeout <= 0:
		return fmt.Errorf("%s: a step needs a timeout", where)
	case s.Undo != nil && s.Do == nil:
		return fmt.Errorf("%s: only a step that acts can be undone", where)
	}
	for _, f := range s.Feedback {
		if !slices.Contains(s.Reads, f) {
			return fmt.Errorf("%s: feedback %q is not among its reads", where, f)
		}
	}
	return nil
}

// checkOwners refuses two writers of one field, and two loops with one claim.
func (g *Graph) checkOwners(loops []Loop) error {
	claims := map[string]string{}
	for _, l := range loops {
		for _, c := range l.Claims {
			if other, ok := claims[c]; ok && other != l.Name {
				return fmt.Errorf("%s: loops %q and %q both claim %q; one resource has one owner", g.Kind, other, l.Name, c)
			}
			claims[c] = l.Name
		}
	}
	for i, a := range g.nodes {
		for _, b := range g.nodes[i+1:] {
			if path, ok := clash(a.outputs, b.outputs); ok {
				return fmt.Errorf("%s: steps %q (loop %q) and %q (loop %q) both write %s; each field has one owner", g.Kind, a.name, a.loop, b.name, b.loop, path)
			}
		}
	}
	return nil
}

func clash(a, b []pattern) (string, bool) {
	for _, p := range a {
		for _, q := range b {
			if p.overlaps(q) {
				return strings.Join(p, "."), true
			}
		}
	}
	return "", false
}

// link resolves names. A requirement must exist; an order against a name that does
// not exist is void, as in systemd.
func (g *Graph) link() error {
	for _, n := range g.nodes {
		requires, after, before := n.edges()
		for _, name := range requires {
			m, ok := g.index[name]
			if !ok {
				return fmt.Errorf("%s: %q requires %q, which does not exist", g.Kind, n.name, name)
			}
			n.requires = append(n.requires, m)
			m.needed = append(m.needed, n)
		}
		for _, name := range after {
			if m, ok := g.index[name]; ok {
				n.after = append(n.after, m)
			}
		}
		for _, name := range before {
			if m, ok := g.index[name]; ok {
				m.after = append(m.after, n)
			}
		}
		n.after = append(n.after, g.readsFrom(n)...)
	}
	return nil
}

func (n *node) edges() (requires, after, before []string) {
	if n.target != nil {
		return n.target.Requires, n.target.After, nil
	}
	return n.step.Requires, append(slices.Clone(n.step.After), n.step.Wants...), n.step.Before
}

// sort orders the nodes so that each stands behind everything that it requires,
// is ordered after, or reads from; feedback reads are no edges. Ties go by name.
func (g *Graph) sort() error {
	waits := map[*node]map[*node]bool{}
	for _, n := range g.nodes {
		waits[n] = map[*node]bool{}
		for _, m := range append(slices.Clone(n.requires), n.after...) {
			waits[n][m] = true
		}
	}
	slices.SortFunc(g.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	var sorted []*node
	for len(sorted) < len(g.nodes) {
		next := g.free(waits)
		if next == nil {
			return fmt.Errorf("%s: cycle without a declared feedback edge: %s", g.Kind, cycle(waits))
		}
		delete(waits, next)
		for _, w := range waits {
			delete(w, next)
		}
		sorted = append(sorted, next)
	}
	g.nodes = sorted
	return nil
}

func (g *Graph) free(waits map[*node]map[*node]bool) *node {
	for _, n := range g.nodes {
		if w, ok := waits[n]; ok && len(w) == 0 {
			return n
		}
	}
	return nil
}

// readsFrom are the nodes whose outputs n reads, feedback aside.
func (g *Graph) readsFrom(n *node) []*node {
	var from []*node
	for i, read := range n.reads {
		if slices.Contains(n.step.Feedback, n.step.Reads[i]) {
			continue
		}
		for _, m := range g.nodes {
			if _, ok := clash([]pattern{read}, m.outputs); ok && m != n {
				from = append(from, m)
			}
		}
	}
	return from
}

// cycle names one cycle among the nodes that could not be ordered.
func cycle(waits map[*node]map[*node]bool) string {
	var at *node
	for n := range waits {
		if at == nil || n.name < at.name {
			at = n
		}
	}
	var path []*node
	for !slices.Contains(path, at) {
		path = append(path, at)
		var next *node
		for m := range waits[at] {
			if next == nil || m.name < next.name {
				next = m
			}
		}
		at = next
	}
	path = append(path[slices.Index(path, at):], at)
	var names []string
	for _, n := range path {
		names = append(names, n.name)
	}
	return strings.Join(names, " waits for ")
}

// Goals lists the targets that may be switched to, sorted.
func (g *Graph) Goals() []string {
	var names []string
	for _, n := range g.nodes {
		if n.target != nil && n.target.Goal {
			names = append(names, n.name)
		}
	}
	slices.Sort(names)
	return names
}

// StepOwner returns the loop that owns a step, or "".
func (g *Graph) StepOwner(step string) string {
	if n, ok := g.index[step]; ok {
		return n.loop
	}
	return ""
}

// Step returns a step by its name.
func (g *Graph) Step(name string) (Step, bool) {
	if n, ok := g.index[name]; ok && n.step != nil {
		return *n.step, true
	}
	return Step{}, false
}

// Writes reports whether the step may write the path.
func (g *Graph) Writes(step, path string) bool {
	n, ok := g.index[step]
	return ok && matchAny(n.outputs, path)
}

// closure returns what the goal requires, the goal included.
func (g *Graph) closure(goal string) map[*node]bool {
	in := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || in[n] {
			return
		}
		in[n] = true
		for _, m := range n.requires {
			visit(m)
		}
	}
	visit(g.index[goal])
	return in
}

// Downward lists the steps in the order in which they are taken back.
func (g *Graph) Downward() []string {
	var names []string
	for i := len(g.nodes) - 1; i >= 0; i-- {
		if g.nodes[i].step != nil {
			names = append(names, g.nodes[i].name)
		}
	}
	return names
}

// RequiresOf names what a step or target requires.
func (g *Graph) RequiresOf(name string) []string {
	n, ok := g.index[name]
	if !ok {
		return nil
	}
	requires, _, _ := n.edges()
	return requires
}
