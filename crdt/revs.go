package crdt

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rev is one entry of an object's history: a change of its spec (which has a
// number of its own), its deletion, or a change of its lifecycle.
type Rev struct {
	Change  ID
	Number  uint64 // 1 + the greatest among the parents; of what is no rev, that of the rev before
	IsRev   bool   // creates the object or changes its spec
	Deletes bool
	Parents []ID
	Author  string
	HLC     uint64
	Stamp   uint64
	Message string
	Set     [16]byte
	Ops     []Op
	Refused string // why it has no effect; empty if it counts
}

// Conflict is a field that was written concurrently, until somebody's edit has all
// writers among its ancestors.
type Conflict struct {
	Path string
	// Claims are the values and their authors. The first is in force.
	Claims []Claim
}

// Claim is one side of a conflict. An empty value is a removal.
type Claim struct {
	Value, Author string
	Change        ID
}

// Revs returns the object's history, parents before children.
func (o *Object) Revs() []Rev {
	revs := make([]Rev, len(o.nodes))
	for i, n := range o.nodes {
		revs[i] = n.public()
	}
	return revs
}

// Rev returns one entry of the object's history.
func (o *Object) Rev(change ID) (Rev, bool) {
	if n := o.node(change); n != nil {
		return n.public(), true
	}
	return Rev{}, false
}

// IsRev reports whether a change of the object's history is a rev: a restart, say, is none.
func (o *Object) IsRev(change ID) bool {
	n := o.node(change)
	return n != nil && n.is(traitRev)
}

func (n *node) public() Rev {
	c := n.change()
	var parents []ID
	for _, p := range n.parents {
		parents = append(parents, p.id)
	}
	return Rev{
		Change: n.id, Number: n.number, IsRev: n.is(traitRev), Deletes: n.is(traitDeletes),
		Parents: parents, Author: c.Author, HLC: c.HLC, Stamp: n.stamp,
		Message: c.Message, Set: c.Set, Ops: c.Ops, Refused: n.refused,
	}
}

func (o *Object) node(change ID) *node {
	for i := len(o.nodes) - 1; i >= 0; i-- {
		if o.nodes[i].id == change {
			return o.nodes[i]
		}
	}
	return nil
}

// Heads returns the latest effective changes, sorted: the parents of the next one.
// More than one means that people edited concurrently.
func (o *Object) Heads() []ID {
	heads := make([]ID, len(o.heads))
	for i, n := range o.heads {
		heads[i] = n.id
	}
	return heads
}

// Number is the object's rev number: the greatest among its heads.
func (o *Object) Number() uint64 {
	var number uint64
	for _, n := range o.heads {
		number = max(number, n.number)
	}
	return number
}

// Conflicts lists the fields of the spec whose concurrent writes differ and that
// nobody settled yet, by path.
func (o *Object) Conflicts() []Conflict {
	if len(o.heads) < 2 {
		return nil
	}
	writers := map[string][]cell{} // by path, each head's last writer
	for _, h := range o.heads {
		for _, c := range foldSpec(o.nodes, closure([]*node{h})) {
			if !slices.ContainsFunc(writers[c.path], func(w cell) bool { return w.node == c.node }) {
				writers[c.path] = append(writers[c.path], c)
			}
		}
	}
	var conflicts []Conflict
	for path, cells := range writers {
		if claims := concurrent(cells); len(claims) > 1 {
			conflicts = append(conflicts, Conflict{path, claims})
		}
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int { return strings.Compare(a.Path, b.Path) })
	return conflicts
}

// concurrent drops the writes that another one knew of, and returns the rest, the
// latest first, if their values differ.
func concurrent(cells []cell) []Claim {
	var tops []cell
	for _, c := range cells {
		known := func(o cell) bool { return o.node != c.node && closure([]*node{o.node}).has(c.node) }
		if !slices.ContainsFunc(cells, known) {
			tops = append(tops, c)
		}
	}
	if !slices.ContainsFunc(tops, func(c cell) bool { return c.value != tops[0].value }) {
		return nil
	}
	slices.SortFunc(tops, func(a, b cell) int { return b.node.compare(a.node) })
	claims := make([]Claim, len(tops))
	for i, c := range tops {
		claims[i] = Claim{c.value, c.node.author, c.node.id}
	}
	return claims
}

// foldSpec folds the spec's writes of those nodes (sorted) that are in the set.
func foldSpec(nodes []*node, in nodeSet) []cell {
	var cells []cell
	for _, n := range nodes {
		if in.has(n) && n.counts() && !n.is(traitDeletes) {
			cells = write(cells, n)
		}
	}
	return slices.DeleteFunc(cells, func(c cell) bool { return !strings.HasPrefix(c.path, specPrefix) })
}

// SpecAt returns the exact spec as of some revs, usually one; several name a merge.
func (o *Object) SpecAt(revs ...ID) (map[string]string, error) {
	nodes := make([]*node, len(revs))
	for i, id := range revs {
		if nodes[i] = o.node(id); nodes[i] == nil {
			return nil, fmt.Errorf("there is no rev %s", id)
		}
	}
	spec := map[string]string{}
	for _, c := range foldSpec(o.nodes, closure(nodes)) {
		if c.value != "" {
			spec[c.path] = c.value
		}
	}
	return spec, nil
}

// HeadsAt returns the heads as they would have been if nothing had been written
// after a stamp (an HLC reading): the input of SpecAt for a point in time.
func (o *Object) HeadsAt(stamp uint64) []ID {
	var heads []*node
	for _, n := range o.nodes {
		if n.stamp <= stamp && n.counts() && n.is(traitCausal) {
			heads = advance(heads, n)
		}
	}
	return (&Object{heads: heads}).Heads()
}

// HeadsBy returns the latest revs by some authors, those that none of them built on: the
// input of SpecAt for the spec as they left it. There are none if none of them ever edited
// the object.
func (o *Object) HeadsBy(selects func(author string) bool) []ID {
	var heads []*node
	for _, n := range o.nodes {
		if n.counts() && n.is(traitRev) && selects(n.author) {
			heads = advance(heads, n)
		}
	}
	return (&Object{heads: heads}).Heads()
}

// String prints the name for people.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + "/" + r.Name
	}
	return r.Kind + "/" + r.Namespace + "/" + r.Name
}

// RevName names a rev as briefly as is unambiguous: "7", or "7.a1b2" if another rev
// has the same number.
func (o *Object) RevName(change ID) string {
	n := o.node(change)
	if n == nil {
		return change.String()
	}
	return o.revName(n)
}

func (o *Object) revName(n *node) string {
	number := strconv.FormatUint(n.number, 10)
	peers := o.numbered(n.number)
	if len(peers) == 1 && peers[0] == n {
		return number
	}
	full := hex.EncodeToString(n.id[:])
	for digits := 4; digits < len(full); digits += 2 {
		shared := func(p *node) bool { return p != n && hex.EncodeToString(p.id[:])[:digits] == full[:digits] }
		if !slices.ContainsFunc(peers, shared) {
			return number + "." + full[:digits]
		}
	}
	return number + "." + full
}

// numbered returns the revs with a number, in order.
func (o *Object) numbered(number uint64) []*node {
	var nodes []*node
	for _, n := range o.nodes {
		if n.is(traitRev) && n.number == number {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Current names what the object is at now: "7", or for concurrent edits that nobody
// merged its heads, "7.a1b2+7.c3d4".
func (o *Object) Current() string {
	var names []string
	for _, n := range lastRevs(o.heads) {
		names = append(names, o.revName(n))
	}
	return strings.Join(names, "+")
}

// lastRevs replaces what is no rev (a deletion) by the revs that it builds on.
func lastRevs(nodes []*node) (revs []*node) {
	for _, n := range nodes {
		found := []*node{n}
		if !n.is(traitRev) {
			found = lastRevs(n.parents)
		}
		for _, r := range found {
			if !slices.Contains(revs, r) {
				revs = append(revs, r)
			}
		}
	}
	return revs
}

// ParseRev resolves what RevName and Current print: a number, a number with the
// beginning of the change's ID, or several joined by "+". An ambiguous name is an
// error that lists the choices.
func (o *Object) ParseRev(name string) ([]ID, error) {
	var revs []ID
	for part := range strings.SplitSeq(name, "+") {
		n, err := o.parseRev(part)
		if err != nil {
			return nil, err
		}
		revs = append(revs, n.id)
	}
	return revs, nil
}

func (o *Object) parseRev(name string) (*node, error) {
	digits, prefix, dotted := strings.Cut(name, ".")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || dotted && prefix == "" {
		return nil, fmt.Errorf("%q is no rev: write a number like 7, or 7.a1b2", name)
	}
	matches := o.numbered(number)
	matches = slices.DeleteFunc(matches, func(n *node) bool {
		return !strings.HasPrefix(hex.EncodeToString(n.id[:]), strings.ToLower(prefix))
	})
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return nil, fmt.Errorf("there is no rev %s; the latest is %s", name, o.Current())
	}
	choices := make([]string, len(matches))
	for i, n := range matches {
		choices[i] = o.revName(n)
	}
	return nil, fmt.Errorf("rev %s is ambiguous; choose one of %s", name, strings.Join(choices, ", "))
}
