package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"starling.dev/starling/api"
)

// Description is a lifecycle as data, for people and for drawings.
type Description struct {
	Kind     string
	Nodes    []NodeDescription // in the order of the graph: every edge points forwards
	Edges    []Edge            // sorted by the places of what they join
	Feedback []FeedbackEdge
	Claims   []Claim
	Goals    []string
	// Budgets are those of loops that declare one.
	Budgets []Budget
	// Longest is the chain with the most steps, each of which waits for the one before;
	// LongestTimeout is how long it may take if every step takes all of its time.
	Longest        []string
	LongestTimeout time.Duration
	// Unwritten are reads of the status that nothing writes: "STEP reads PATH".
	Unwritten []string
}

// NodeDescription is one step or target.
type NodeDescription struct {
	Name, Doc                string
	Target, Goal             bool
	Loop                     string // who owns the step and what it writes
	Where                    Where
	Acts, Undoes             bool
	Reads, Consults, Outputs []string
	Timeout                  time.Duration
	Children                 string // the kind of the objects that it owns
	Authors                  api.Authors
}

// Budget is a loop's own entry budget.
type Budget struct {
	Loop    string
	Entries int
}

// Edge says that one node waits for another, and why: "requires", "wants", "is after",
// or "reads PATH of".
type Edge struct {
	From, To string // From goes first
	Why      string
}

// FeedbackEdge is a read against the order, and how often it may run its reader again in
// one generation before there is backoff.
type FeedbackEdge struct {
	Path, Writer, Reader string
	Budget               int
}

// String names the place.
func (w Where) String() string {
	if w == OnMachine {
		return "machine"
	}
	return "executor"
}

// Describe returns the whole lifecycle as data.
func (g *Graph) Describe() Description {
	d := Description{Kind: g.Kind, Claims: slices.Clone(g.claims), Goals: g.Goals(), Edges: slices.Clone(g.edges)}
	for _, n := range g.nodes {
		d.Nodes = append(d.Nodes, n.describe())
		if n.step == nil {
			continue
		}
		for _, read := range n.step.Reads {
			if slices.Contains(n.step.Feedback, read) {
				d.Feedback = append(d.Feedback, g.feedback(n, read)...)
			}
			if api.Overlap("status", read) && len(g.writers(read)) == 0 {
				d.Unwritten = append(d.Unwritten, n.name+" reads "+read)
			}
		}
	}
	for _, loop := range slices.Sorted(maps.Keys(g.budgets)) {
		if n := g.budgets[loop]; n > 0 {
			d.Budgets = append(d.Budgets, Budget{loop, n})
		}
	}
	d.Longest, d.LongestTimeout = g.longest()
	return d
}

func (n *node) describe() NodeDescription {
	if n.step == nil {
		return NodeDescription{Name: n.name, Doc: n.target.Doc, Target: true, Goal: n.goal()}
	}
	s := n.step
	return NodeDescription{
		Name: n.name, Goal: n.goal(), Loop: n.loop, Where: s.Where, Acts: n.acts(), Undoes: s.Undo != nil,
		Reads: slices.Clone(s.Reads), Consults: slices.Clone(s.Consults), Outputs: slices.Clone(s.Outputs), Timeout: s.Timeout, Children: s.Children,
		Authors: s.Authors,
	}
}

func (g *Graph) feedback(n *node, read string) []FeedbackEdge {
	var edges []FeedbackEdge
	for _, w := range g.writers(read) {
		edges = append(edges, FeedbackEdge{Path: read, Writer: w.name, Reader: n.name, Budget: n.step.budget()})
	}
	return edges
}

// Readers names the steps that run again when a field at, above or below the path
// changes, in the order of the graph.
func (g *Graph) Readers(path string) []string {
	var names []string
	for _, n := range g.nodes {
		if n.step == nil {
			continue
		}
		if _, ok := clash([]string{path}, n.step.Reads); ok {
			names = append(names, n.name)
		}
	}
	return names
}

// Writer names the loop and the step that own the field; both are empty if none does.
func (g *Graph) Writer(path string) (loop, step string) {
	for _, n := range g.writers(path) {
		return n.loop, n.name
	}
	return "", ""
}

func (g *Graph) writers(path string) []*node {
	var writers []*node
	for _, n := range g.nodes {
		if _, ok := clash([]string{path}, n.outputs()); ok {
			writers = append(writers, n)
		}
	}
	return writers
}

// longest finds the chain with the most steps; of several the one with the longest
// timeouts, then the first in the order of the graph.
func (g *Graph) longest() ([]string, time.Duration) {
	type chain struct {
		steps   int
		timeout time.Duration
		before  int
	}
	better := func(a, b chain) bool {
		return cmp.Or(cmp.Compare(a.steps, b.steps), cmp.Compare(a.timeout, b.timeout)) > 0
	}
	chains := make([]chain, len(g.nodes))
	best := -1
	for i, n := range g.nodes {
		c := chain{before: -1}
		for j := range n.after.all {
			if c.before < 0 || better(chains[j], chains[c.before]) {
				c.steps, c.timeout, c.before = chains[j].steps, chains[j].timeout, j
			}
		}
		if n.step != nil {
			c.steps++
			c.timeout += n.step.Timeout
		}
		chains[i] = c
		if best < 0 || better(c, chains[best]) {
			best = i
		}
	}
	var names []string
	for i := best; i >= 0; i = chains[i].before {
		names = append(names, g.nodes[i].name)
	}
	slices.Reverse(names)
	if best < 0 {
		return nil, 0
	}
	return names, chains[best].timeout
}

// String prints the lifecycle as a table, one step or target a line.
func (d Description) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, n := range d.Nodes {
		if n.Target {
			fmt.Fprintf(w, "%s\ttarget\t%s\n", n.Name, after(d.Edges, n.Name))
			continue
		}
		what := "decides on the " + n.Where.String()
		if n.Acts {
			what = "acts on the " + n.Where.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", n.Name, what, after(d.Edges, n.Name))
	}
	w.Flush() // a strings.Builder takes everything
	return strings.TrimSuffix(b.String(), "\n")
}

func after(edges []Edge, name string) string {
	var list []string
	for _, e := range edges {
		if e.To == name {
			list = append(list, e.Why+" "+e.From)
		}
	}
	return strings.Join(list, ", ")
}
