package lifecycle

import (
	"fmt"
	"strings"
)

// Proof says why everything that is registered converges: the reads and orders of each
// kind form no cycle, each field and each outside resource has one owner, and whatever
// runs against the order is bounded.
type Proof struct {
	Kinds []Description
}

// Verify proves that the lifecycles of all kinds converge, or says what is in the way.
// Each graph was checked alone when it was compiled; what is left are the claims that
// loops of different kinds make.
func Verify(graphs ...*Graph) (Proof, error) {
	var p Proof
	var claims []Claim
	for _, g := range graphs {
		p.Kinds = append(p.Kinds, g.Describe())
		claims = append(claims, g.claims...)
	}
	if a, b, ok := contested(claims); ok {
		return Proof{}, fmt.Errorf("loops %q and %q both claim %q; one resource has one owner", a.Loop, b.Loop, a.Resource)
	}
	return p, nil
}

// String prints the proof for people, one kind after the other.
func (p Proof) String() string {
	var b strings.Builder
	for i, d := range p.Kinds {
		if i > 0 {
			b.WriteByte('\n')
		}
		d.prove(&b)
	}
	return b.String()
}

func (d Description) prove(b *strings.Builder) {
	fmt.Fprintf(b, "%s: no cycle. In this order every step stands behind all that it waits for:\n", d.Kind)
	var names []string
	for _, n := range d.Nodes {
		names = append(names, n.Name)
	}
	fmt.Fprintf(b, "  %s\n", strings.Join(names, ", "))
	fmt.Fprintf(b, "  Longest chain (at most %s): %s\n", d.LongestTimeout, strings.Join(d.Longest, " -> "))
	for _, f := range d.Feedback {
		fmt.Fprintf(b, "  Feedback: %s reads %s of %s, at most %d times in one generation, then with backoff.\n", f.Reader, f.Path, f.Writer, f.Budget)
	}
	for _, own := range d.Budgets {
		fmt.Fprintf(b, "  Entries: loop %s writes at most %d about one object at once, then one each %s; others %d.\n", own.Loop, own.Entries, EntryEvery, DefaultEntries)
	}
	for _, n := range d.Nodes {
		if !n.Authors.Any() {
			fmt.Fprintf(b, "  Authors: %s is called by edits of %s.\n", n.Name, n.Authors)
		}
	}
	b.WriteString("  Owners, one each:\n")
	for _, n := range d.Nodes {
		for _, path := range n.Outputs {
			fmt.Fprintf(b, "    %s: loop %s, step %s\n", path, n.Loop, n.Name)
		}
	}
	for _, c := range d.Claims {
		fmt.Fprintf(b, "    %s: loop %s\n", c.Resource, c.Loop)
	}
	for _, u := range d.Unwritten {
		fmt.Fprintf(b, "  Note: %s, which nothing writes.\n", u)
	}
}
