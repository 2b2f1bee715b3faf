package crdt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
)

// node is a change of an object other than a result, as the fold keeps it.
// Immutable once inserted.
type node struct {
	id      ID
	body    string // what kept gives, encoded; author points into it
	stamp   uint64
	number  uint64
	parents []*node
	author  string
	refused string // why it has no effect; empty if it counts
	gen     int    // the generation of its lineage that it names
	traits  trait
}

// trait is a set of what a node is.
type trait uint8

const (
	traitCreates trait = 1 << iota
	traitDeletes
	traitSpec   // writes "spec."
	traitRev    // counts as a rev
	traitCausal // part of the DAG that heads are taken from: revs and deletions
)

func (n *node) is(t trait) bool { return n.traits&t != 0 }

// counts reports whether the node has an effect.
func (n *node) counts() bool { return n.refused == "" }

// compare orders nodes by (stamp, ID), in which a parent precedes its children.
func (n *node) compare(o *node) int {
	if c := cmp.Compare(n.stamp, o.stamp); c != 0 {
		return c
	}
	return bytes.Compare(n.id[:], o.id[:])
}

func (n *node) change() Change { return (&reader{rest: n.body}).body() }

// kept is what the fold and the history need of a change: what the node has in other
// words, and what was judged when it came, is left out.
func (c *Change) kept() Change {
	return Change{Author: c.Author, HLC: c.HLC, Level: c.Level, Set: c.Set, Message: c.Message, Ops: c.Ops}
}

func newNode(c *Change, id ID, parents []*node, gen int, traits trait) *node {
	var room [1024]byte
	kept := c.kept()
	n := &node{id: id, body: string(kept.appendBody(room[:0])), stamp: c.HLC, parents: parents, gen: gen, traits: traits}
	n.author = n.change().Author
	for _, p := range parents {
		n.stamp = max(n.stamp, after(p.stamp))
		n.number = max(n.number, p.number)
	}
	if n.is(traitRev) {
		n.number++
	}
	return n
}

// after is the least stamp that is later; it saturates.
func after(stamp uint64) uint64 {
	if stamp == math.MaxUint64 {
		return stamp
	}
	return stamp + 1
}

// cell is a field's last write. An empty value is a removal, which is a write too.
type cell struct {
	path, value string // parts of node.body
	node        *node
}

// write returns cells with the operations of n folded in; cells is left as it was.
// Invariant: cells are sorted by path, and each holds the greatest (stamp, ID).
func write(cells []cell, n *node) []cell { return writeOps(cells, n, n.change().Ops) }

func writeOps(cells []cell, n *node, ops []Op) []cell {
	ops = slices.DeleteFunc(ops, func(o Op) bool { return o.Kind != OpSet && o.Kind != OpUnset })
	room := len(cells) // exactly what is needed, since every object keeps its cells
	for _, o := range ops {
		if _, found := findCell(cells, o.Path); !found {
			room++
		}
	}
	cells = append(make([]cell, 0, room), cells...)
	for _, o := range ops {
		w := cell{o.Path, o.Value, n}
		i, found := findCell(cells, o.Path)
		switch {
		case !found:
			cells = slices.Insert(cells, i, w)
		case cells[i].node.compare(n) <= 0: // of one change's writes the last counts
			cells[i] = w
		}
	}
	return cells
}

func findCell(cells []cell, path string) (int, bool) {
	return slices.BinarySearchFunc(cells, path, func(c cell, path string) int { return strings.Compare(c.path, path) })
}

// nodeSet is a set of nodes; it is asked, never ranged over.
type nodeSet map[*node]struct{}

func (s nodeSet) has(n *node) bool {
	_, ok := s[n]
	return ok
}

// closure returns the nodes and all their ancestors.
func closure(nodes []*node) nodeSet {
	set := nodeSet{}
	stack := slices.Clone(nodes)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !set.has(n) {
			set[n] = struct{}{}
			stack = append(stack, n.parents...)
		}
	}
	return set
}

// advance returns the heads after n: those that are not among its ancestors, and n.
func advance(heads []*node, n *node) []*node {
	rest := subtract(heads, n.parents)
	if len(rest) > 0 && !slices.Equal(n.parents, heads) {
		ancestors := closure(n.parents)
		rest = slices.DeleteFunc(rest, ancestors.has)
	}
	return sortByID(append(rest, n))
}

func subtract(from, what []*node) []*node {
	rest := make([]*node, 0, len(from)+1)
	for _, n := range from {
		if !slices.Contains(what, n) {
			rest = append(rest, n)
		}
	}
	return rest
}

func sortByID(nodes []*node) []*node {
	slices.SortFunc(nodes, func(a, b *node) int { return bytes.Compare(a.id[:], b.id[:]) })
	return nodes
}

// lineage is an incarnation and what was revived from it. gens[0] is what the
// creating change began; gens[k+1] exists as soon as gens[k] is deleted, and lives
// while people's edits survive that deletion. Every other generation is dead, so
// at most one lives.
//
// The revived identity derives from the deleted one, not from an edit: several
// edits that survive one deletion make one object, whatever order they arrive in.
type lineage struct {
	nodes []*node // sorted by compare; shared with snapshots, so only ever appended to or replaced
	gens  []*Object
	// refusals are of changes that name it, and are no revs.
	refusals refusals
}

func (l *lineage) root() *node { return l.nodes[0] }

func (l *lineage) find(id ID) *node {
	for i := len(l.nodes) - 1; i >= 0; i-- { // most changes build on a recent one
		if l.nodes[i].id == id {
			return l.nodes[i]
		}
	}
	return nil
}

// insert adds a node whose parents are there. It returns the identity of a
// generation that came into being with it, if one did.
func (l *lineage) insert(n *node) (revived ID) {
	i, _ := slices.BinarySearchFunc(l.nodes, n, (*node).compare)
	if i == len(l.nodes) {
		l.nodes = append(l.nodes, n)
	} else {
		l.nodes = slices.Concat(l.nodes[:i], []*node{n}, l.nodes[i:])
	}
	if len(l.gens) == 1 && !(n.is(traitDeletes) && n.counts()) {
		l.gens[0] = l.gens[0].with(l.nodes, n)
		return ID{}
	}
	before := len(l.gens)
	l.rebuild()
	if len(l.gens) == before {
		return ID{}
	}
	return l.gens[before].id
}

// with is the incremental fold of the common case, an object never deleted.
func (o *Object) with(nodes []*node, n *node) *Object {
	next := *o
	next.nodes, next.specHash = nodes, nil
	if n.counts() {
		next.cells = write(o.cells, n)
		if n.is(traitCausal) {
			next.heads = advance(o.heads, n)
		}
	}
	return &next
}

// rebuild folds every generation anew. It is the rule; [Object.with] is a shortcut
// to the same result.
func (l *lineage) rebuild() {
	var members []*node
	for g := 0; ; g++ {
		named, deletions := l.naming(g)
		members = append(members, named...)
		l.gens[g] = l.build(g, members, deletions)
		if len(deletions) == 0 {
			return
		}
		if g+1 == len(l.gens) {
			l.gens = append(l.gens, &Object{ref: l.gens[g].ref, id: revivedID(l.gens[g].id), creator: l.gens[g].creator})
		}
		members = survivors(members, deletions)
	}
}

// naming returns the effective writes and the effective deletions that name a
// generation.
func (l *lineage) naming(gen int) (writes, deletions []*node) {
	for _, n := range l.nodes {
		switch {
		case n.gen != gen || !n.counts() || !n.is(traitCausal):
		case n.is(traitDeletes):
			deletions = append(deletions, n)
		default:
			writes = append(writes, n)
		}
	}
	return writes, deletions
}

// survivors are the people's edits of the spec that no deletion knew of. (Edits
// that knew of a deletion were refused on arrival.)
func survivors(members, deletions []*node) []*node {
	covered := closure(deletions)
	var alive []*node
	for _, n := range members {
		if n.is(traitSpec) && isPerson(n.author) && !covered.has(n) {
			alive = append(alive, n)
		}
	}
	return alive
}

// build folds one generation: its members with all their ancestors, the
// deletions that end it, what else names it, and what people wished of it before.
func (l *lineage) build(gen int, members, deletions []*node) *Object {
	o := *l.gens[gen]
	o.deleted = len(deletions) > 0
	o.empty = len(members) == 0
	if o.since = nil; !o.empty {
		o.since = slices.MinFunc(members, (*node).compare)
	}
	o.nodes, o.cells, o.specHash = nil, nil, nil
	in := closure(slices.Concat(members, deletions))
	var tops []*node
	for _, n := range l.nodes {
		if !in.has(n) && n.gen != gen && !wished(n, gen, in) {
			continue
		}
		o.nodes = append(o.nodes, n)
		if n.counts() && !n.is(traitDeletes) && (in.has(n) || !n.is(traitCausal)) {
			o.cells = write(o.cells, n)
		}
		if n.counts() && n.is(traitCausal) {
			tops = advance(tops, n)
		}
	}
	o.heads = tops
	return &o
}

// wished reports whether n is what a person asked of an earlier generation's
// lifecycle (that it stop, say) on top of what this one goes on from.
func wished(n *node, gen int, in nodeSet) bool {
	missing := func(p *node) bool { return !in.has(p) }
	return n.gen < gen && n.counts() && !n.is(traitCausal) && isPerson(n.author) &&
		!slices.ContainsFunc(n.parents, missing)
}

func revivedID(deleted ID) ID {
	return sha256.Sum256(append([]byte(domainRevival), deleted[:]...))
}
