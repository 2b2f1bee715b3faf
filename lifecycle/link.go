package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/api"
)

// links are the edges of one node while the graph is compiled.
type links struct {
	requires, wants map[*node]bool
	after           map[*node]string // why, for whoever reads about a cycle
}

// link resolves names. A requirement must exist; an order against a name that does
// not exist, or a want of one, is void, as in systemd.
func (g *Graph) link() (map[*node]*links, error) {
	all := map[*node]*links{}
	for _, n := range g.nodes {
		all[n] = &links{requires: map[*node]bool{}, wants: map[*node]bool{}, after: map[*node]string{}}
	}
	for _, n := range g.nodes {
		if err := g.linkRequired(all, n); err != nil {
			return nil, err
		}
		g.linkOrder(all, n)
		g.linkReads(all, n)
	}
	return all, nil
}

func (g *Graph) linkRequired(all map[*node]*links, n *node) error {
	requires, requiredBy := n.required()
	for _, name := range requires {
		m, ok := g.index[name]
		if !ok {
			return fmt.Errorf("%s: %q requires %q, which does not exist%s", g.Kind, n.name, name, g.hint(name))
		}
		all[n].require(m)
	}
	for _, name := range requiredBy {
		m, ok := g.index[name]
		if !ok {
			return fmt.Errorf("%s: %q is to be required by %q, which does not exist%s", g.Kind, n.name, name, g.hint(name))
		}
		all[m].require(n)
	}
	return nil
}

func (l *links) require(m *node) {
	l.requires[m] = true
	l.after[m] = "requires"
}

// hint names what may be meant.
func (g *Graph) hint(name string) string {
	if near := api.Nearest(name, slices.Sorted(maps.Keys(g.index))); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

func (n *node) required() (requires, requiredBy []string) {
	if n.target != nil {
		return n.target.Requires, nil
	}
	return n.step.Requires, n.step.RequiredBy
}

func (g *Graph) linkOrder(all map[*node]*links, n *node) {
	order := func(late, early *node, why string) {
		if late != nil && early != nil && all[late].after[early] == "" {
			all[late].after[early] = why
		}
	}
	if n.target != nil {
		for _, name := range n.target.After {
			order(n, g.index[name], "is after")
		}
		return
	}
	for _, name := range n.step.After {
		order(n, g.index[name], "is after")
	}
	for _, name := range n.step.Before {
		order(g.index[name], n, "is after")
	}
	want := func(who, what *node) {
		if who != nil && what != nil {
			all[who].wants[what] = true
			order(who, what, "wants")
		}
	}
	for _, name := range n.step.Wants {
		want(n, g.index[name])
	}
	for _, name := range n.step.WantedBy {
		want(g.index[name], n)
	}
}

// linkReads orders a step behind those whose outputs it reads, feedback aside.
func (g *Graph) linkReads(all map[*node]*links, n *node) {
	if n.step == nil {
		return
	}
	for _, read := range n.step.Reads {
		if slices.Contains(n.step.Feedback, read) {
			continue
		}
		for _, m := range g.nodes {
			if _, ok := clash([]string{read}, m.outputs()); ok && m != n && all[n].after[m] == "" {
				all[n].after[m] = "reads " + read + " of"
			}
		}
	}
}

// sort orders the nodes so that each stands behind everything that it requires,
// wants, is ordered after, or reads from; feedback reads are no edges. Ties go by name.
func (g *Graph) sort(all map[*node]*links) error {
	slices.SortFunc(g.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	var sorted []*node
	done := map[*node]bool{}
	free := func(n *node) bool {
		for m := range all[n].after {
			if !done[m] {
				return false
			}
		}
		return !done[n]
	}
	for len(sorted) < len(g.nodes) {
		i := slices.IndexFunc(g.nodes, free)
		if i < 0 {
			return fmt.Errorf("%s: these wait for each other in a circle: %s; drop one of the edges, or declare a read of the circle as feedback", g.Kind, g.cycle(all, done))
		}
		done[g.nodes[i]] = true
		sorted = append(sorted, g.nodes[i])
	}
	g.nodes = sorted
	return nil
}

// cycle prints one cycle among the nodes that could not be ordered, beginning with
// its least name.
func (g *Graph) cycle(all map[*node]*links, done map[*node]bool) string {
	next := func(n *node) *node {
		for _, m := range g.nodes { // by name
			if _, waits := all[n].after[m]; waits && !done[m] {
				return m
			}
		}
		panic("unreachable: a node that can't be ordered waits for another")
	}
	at := g.nodes[slices.IndexFunc(g.nodes, func(n *node) bool { return !done[n] })]
	var path []*node
	for !slices.Contains(path, at) {
		path = append(path, at)
		at = next(at)
	}
	path = path[slices.Index(path, at):]
	least := slices.Index(path, slices.MinFunc(path, func(a, b *node) int { return strings.Compare(a.name, b.name) }))
	path = append(path[least:], path[:least]...)
	var b strings.Builder
	for i, n := range path {
		m := path[(i+1)%len(path)]
		fmt.Fprintf(&b, "%s %s ", n.name, all[n].after[m])
	}
	return b.String() + path[0].name
}

// place numbers the nodes and turns their edges into sets.
func (g *Graph) place(all map[*node]*links) {
	if len(g.nodes) > maxNodes {
		return // declareReads refuses it
	}
	for i, n := range g.nodes {
		n.at = i
	}
	for _, n := range g.nodes {
		n.pulls.add(n.at)
		n.hard.add(n.at)
		for _, m := range g.nodes[:n.at] {
			g.connect(n, m, all[n])
		}
		for i := range n.earlier.all {
			g.nodes[i].above.add(n.at)
		}
	}
}

// connect takes the edges from n to an earlier node over.
func (g *Graph) connect(n, m *node, l *links) {
	if why, after := l.after[m]; after {
		g.edges = append(g.edges, Edge{From: m.name, To: n.name, Why: why})
		n.after.add(m.at)
		n.earlier |= m.earlier | 1<<m.at
	}
	if l.requires[m] {
		n.requires.add(m.at)
		n.hard |= m.hard
		n.below |= m.below | 1<<m.at
	}
	if l.requires[m] || l.wants[m] {
		n.pulls |= m.pulls
	}
}
