package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/api"
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
	edges []Edge
	reads readTree
	// readers counts who reads: the steps, and what tells generations apart.
	readers int
	// listens holds the readers of steps that select authors.
	listens set
	claims  []Claim
	budgets map[string]int // of entries, by loop, where one declares its own
}

// Claim is a resource outside the cluster's objects, and the one loop that may touch
// it.
type Claim struct {
	Resource, Loop string
}

// node is a step or a target. Sets are of places in the order of the graph.
type node struct {
	at         int
	name       string
	loop       string
	step       *Step // nil for a target
	target     *Target
	generation int // reader of what the step reads without its feedback; 0 for none

	requires set // hard
	after    set // everything that has to be over first: what it requires, wants, is ordered after or reads from
	pulls    set // what a goal of this name needs, itself included
	hard     set // those of pulls that it can't be reached without
	below    set // everything that it requires, directly or not
	earlier  set // everything that it stands behind, directly or not
	above    set // everything that stands behind it, directly or not
}

func (n *node) acts() bool { return n.step != nil && n.step.Do != nil }

// NewGraph compiles the loops of one kind. It refuses, with the offending names: a
// second owner of a field or of a claim, a requirement that does not exist, a step
// without a timeout or an action, and a cycle (other than through declared feedback).
func NewGraph(kind string, targets []Target, loops []Loop) (*Graph, error) {
	g := &Graph{Kind: kind, index: map[string]*node{}, budgets: map[string]int{}}
	for i := range targets {
		if err := checkName(targets[i].Name); err != nil {
			return nil, fmt.Errorf("%s: target: %w", kind, err)
		}
		if err := g.add(&node{name: targets[i].Name, target: &targets[i]}); err != nil {
			return nil, err
		}
	}
	for i := range loops {
		if err := g.addLoop(loops, i); err != nil {
			return nil, err
		}
	}
	if err := g.checkOwners(); err != nil {
		return nil, err
	}
	links, err := g.link()
	if err != nil {
		return nil, err
	}
	if err := g.sort(links); err != nil {
		return nil, err
	}
	g.place(links)
	return g, errors.Join(g.declareReads(), g.checkPlaces())
}

func (g *Graph) addLoop(loops []Loop, i int) error {
	l := &loops[i]
	switch {
	case l.Kind != g.Kind:
		return fmt.Errorf("%s: loop %q is declared for kind %q", g.Kind, l.Name, l.Kind)
	case slices.ContainsFunc(loops[:i], func(o Loop) bool { return o.Name == l.Name }):
		return fmt.Errorf("%s: loop %q is declared twice; fields are owned by the loop's name, so names are unique", g.Kind, l.Name)
	}
	for _, resource := range l.Claims {
		g.claims = append(g.claims, Claim{resource, l.Name})
	}
	g.budgets[l.Name] = l.Entries
	for j := range l.Steps {
		s := &l.Steps[j]
		if err := checkStep(l, s); err != nil {
			return err
		}
		if err := g.add(&node{name: s.Name, loop: l.Name, step: s}); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) add(n *node) error {
	if old, ok := g.index[n.name]; ok {
		return fmt.Errorf("%s: %q is declared twice, by %s and by %s; rename one", g.Kind, n.name, old.origin(), n.origin())
	}
	g.index[n.name] = n
	g.nodes = append(g.nodes, n)
	return nil
}

func (n *node) origin() string {
	if n.step == nil {
		return "a target"
	}
	return fmt.Sprintf("loop %q", n.loop)
}

func checkStep(l *Loop, s *Step) error {
	where := fmt.Sprintf("loop %q, step %q", l.Name, s.Name)
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	switch {
	case count(s.Decide != nil, s.Manage != nil, s.Do != nil) != 1:
		return fmt.Errorf("%s: set exactly one of Decide, Manage and Do", where)
	case s.Manage != nil && s.Children == "" || s.Decide != nil && s.Children != "":
		return fmt.Errorf("%s: Children is the kind that a step owns; Manage needs it, and Decide has none", where)
	case s.Timeout <= 0:
		return fmt.Errorf("%s: a step needs a timeout", where)
	case s.Do == nil && (s.Undo != nil || s.Expect != nil):
		return fmt.Errorf("%s: only a step that acts can be undone or foretold", where)
	case s.Do == nil && s.Every != 0:
		return fmt.Errorf("%s: only a step that acts is done again in an interval", where)
	case s.Budget != 0 && len(s.Feedback) == 0:
		return fmt.Errorf("%s: a budget is for feedback, and it declares none", where)
	}
	for _, f := range s.Feedback {
		if !slices.Contains(s.Reads, f) {
			return fmt.Errorf("%s: feedback %q is not among its reads", where, f)
		}
	}
	for _, o := range s.Outputs {
		if !api.Below(o, "status") {
			return fmt.Errorf("%s: it writes %s; steps write below status", where, o)
		}
	}
	return nil
}

// checkName keeps names apart from the other things that a step may wait for.
func checkName(name string) error {
	if name == Deleted || name == "machine" {
		return fmt.Errorf("the name %q has a meaning of its own; choose another", name)
	}
	if name == "" || strings.ContainsAny(name, "./ ") {
		return fmt.Errorf("%q is no name; write one without dots, slashes and spaces", name)
	}
	return nil
}

// checkOwners refuses two writers of one field, and two loops with one claim.
func (g *Graph) checkOwners() error {
	if a, b, ok := contested(g.claims); ok {
		return fmt.Errorf("%s: loops %q and %q both claim %q; one resource has one owner", g.Kind, a.Loop, b.Loop, a.Resource)
	}
	for i, a := range g.nodes {
		for _, b := range g.nodes[i+1:] {
			if path, ok := clash(a.outputs(), b.outputs()); ok {
				return fmt.Errorf("%s: steps %q (loop %q) and %q (loop %q) both write %s; each field has one owner", g.Kind, a.name, a.loop, b.name, b.loop, path)
			}
		}
	}
	return nil
}

// contested finds two loops with one claim.
func contested(claims []Claim) (a, b Claim, found bool) {
	for i, a := range claims {
		for _, b := range claims[i+1:] {
			if a.Resource == b.Resource && a.Loop != b.Loop {
				return a, b, true
			}
		}
	}
	return Claim{}, Claim{}, false
}

func (n *node) outputs() []string {
	if n.step == nil {
		return nil
	}
	return n.step.Outputs
}

// clash finds a path that both lists of patterns cover.
func clash(a, b []string) (string, bool) {
	for _, p := range a {
		for _, q := range b {
			if api.Overlap(p, q) {
				return p, true
			}
		}
	}
	return "", false
}

// checkPlaces: what runs on the object's machine requires the step that decides which
// one that is, where there is such a step.
func (g *Graph) checkPlaces() error {
	for _, w := range g.writers(machineField) {
		for _, n := range g.nodes {
			if n.step != nil && n.step.Where == OnMachine && !n.below.has(w.at) {
				return fmt.Errorf("%s: %q runs on the object's machine, and does not require %q, which decides that; add it to Requires", g.Kind, n.name, w.name)
			}
		}
	}
	return nil
}

// declareReads notes who reads what. A step with feedback is a second reader, of what
// it reads without: that tells one generation from the next.
func (g *Graph) declareReads() error {
	readers := len(g.nodes)
	for _, n := range g.nodes {
		if n.step == nil {
			continue
		}
		if len(n.step.Feedback) > 0 {
			n.generation = readers
			readers++
		}
		if readers > maxNodes {
			break
		}
		if !n.step.Authors.Any() {
			g.listens.add(n.at)
			if n.generation != 0 {
				g.listens.add(n.generation)
			}
		}
		for _, r := range n.step.Reads {
			g.reads.add(r, n.at)
			if n.generation != 0 && !slices.Contains(n.step.Feedback, r) {
				g.reads.add(r, n.generation)
			}
		}
	}
	g.readers = readers
	if readers > maxNodes {
		return fmt.Errorf("%s: more than %d steps and targets (a step with feedback counts twice); join some", g.Kind, maxNodes)
	}
	return nil
}

// Goals lists what may be switched to, sorted.
func (g *Graph) Goals() []string {
	var names []string
	for _, n := range g.nodes {
		if n.goal() {
			names = append(names, n.name)
		}
	}
	slices.Sort(names)
	return names
}

func (n *node) goal() bool {
	return n.target != nil && n.target.Goal || n.step != nil && n.step.Goal
}

// Takes reports whether a goal can't be reached without a step or target.
func (g *Graph) Takes(goal, name string) bool {
	a, b := g.index[goal], g.index[name]
	return a != nil && b != nil && a.hard.has(b.at)
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
	return ok && slices.ContainsFunc(n.outputs(), func(p string) bool { return api.Covers(p, path) })
}

// Downward lists the steps in the order in which they are taken back.
func (g *Graph) Downward() []string {
	var names []string
	for _, n := range slices.Backward(g.nodes) {
		if n.step != nil {
			names = append(names, n.name)
		}
	}
	return names
}

// Parental reports whether a step makes objects.
func (g *Graph) Parental() bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool { return n.step != nil && n.step.Children != "" })
}

// RequiresOf names what a step or target requires, in the order of the graph.
func (g *Graph) RequiresOf(name string) []string {
	n, ok := g.index[name]
	if !ok {
		return nil
	}
	return g.names(n.requires)
}

func (g *Graph) names(s set) []string {
	var names []string
	for i := range s.all {
		names = append(names, g.nodes[i].name)
	}
	return names
}
