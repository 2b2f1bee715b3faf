package crdt

import (
	"cmp"
	"slices"
)

// Object is one incarnation of an object: an immutable snapshot that a reader may
// keep while the state goes on.
type Object struct {
	ref     Ref
	id      ID
	creator string
	since   *node // what began it; decides who takes the name
	nodes   []*node
	cells   []cell
	results []stepResult
	heads   []*node // sorted by ID
	deleted bool
	empty   bool // nothing survived the deletion that this generation would outlive
	holds   bool
	held    bool
	losers  []Loser
	// What follows is no part of the object, and is nobody's but the state's: hashes that were
	// computed of the object or of what it was before.
	specHash *ID // of nodes, cells and heads; nil when not known
	hashed   *hashedResults
}

// Cell is a field's value and its last write.
type Cell struct {
	Value  string // canonical JSON
	Stamp  uint64
	Change ID
	Author string
}

// Loser is an incarnation that was created while another took its name: a conflict
// that a person settles by stating what is meant, or by deleting both.
type Loser struct {
	ID      ID
	Creator string
}

// Ref is the object's name.
func (o *Object) Ref() Ref { return o.ref }

// ID is the object's identity: its creating change, or for an object revived by an
// edit that its deletion did not know, a hash of the deleted identity.
func (o *Object) ID() ID { return o.id }

// Creator is the author of the creating change.
func (o *Object) Creator() string { return o.creator }

// Deleted reports that the object is to be taken down.
func (o *Object) Deleted() bool { return o.deleted || o.empty }

// HoldsName reports that the name is this incarnation's. One that lost it, or
// whose creation was refused, must not run.
func (o *Object) HoldsName() bool { return o.holds }

// Held reports that changes of a higher level wait: the object is stored and
// forwarded but must not be executed.
func (o *Object) Held() bool { return o.held }

// Losers lists the live incarnations that this one took the name from.
func (o *Object) Losers() []Loser { return slices.Clone(o.losers) }

// live reports whether the incarnation contends for its name.
func (o *Object) live() bool {
	return !o.deleted && !o.empty && o.since != nil && o.since.counts()
}

// shown reports whether anybody would want to see the incarnation.
func (o *Object) shown() bool { return !o.empty || len(o.results) > 0 || len(o.nodes) > 0 }

// Fields returns every field below "spec." and "lifecycle." that has a value.
func (o *Object) Fields() map[string]Cell {
	fields := make(map[string]Cell, len(o.cells))
	for i := range o.cells {
		if c := &o.cells[i]; c.value != "" {
			fields[c.path] = c.public()
		}
	}
	return fields
}

// Values is Fields without its history.
func (o *Object) Values() map[string]string {
	values := make(map[string]string, len(o.cells))
	for i := range o.cells {
		if c := &o.cells[i]; c.value != "" {
			values[c.path] = c.value
		}
	}
	return values
}

// Field returns one field of the spec or the lifecycle.
func (o *Object) Field(path string) (Cell, bool) {
	i, found := findCell(o.cells, path)
	if !found || o.cells[i].value == "" {
		return Cell{}, false
	}
	return o.cells[i].public(), true
}

func (c *cell) public() Cell {
	return Cell{Value: c.value, Stamp: c.node.stamp, Change: c.node.id, Author: c.node.author}
}

// Registers returns the current result of each step. One whose winner was refused
// is absent.
func (o *Object) Registers() map[string]Register {
	registers := make(map[string]Register, len(o.results))
	for _, g := range o.results {
		if g.refused == "" {
			registers[g.step] = *g.register()
		}
	}
	return registers
}

// SameFields reports whether the fields are those of an earlier snapshot, by where they
// are kept: the answer no may be wrong, and costs nothing either way.
func (o *Object) SameFields(before *Object) bool {
	return o.id == before.id && slices.Equal(o.heads, before.heads) && len(o.cells) == len(before.cells) &&
		(len(o.cells) == 0 || &o.cells[0] == &before.cells[0])
}

// RegistersSince tells which results differ from those of an earlier snapshot of the same
// incarnation: with nil, that there is none any more.
func (o *Object) RegistersSince(before *Object, differs func(step string, r *Register)) {
	old := before.results
	for _, g := range o.results {
		for len(old) > 0 && old[0].step < g.step {
			old = old[1:] // results are never dropped, so that this does not happen
		}
		switch same := len(old) > 0 && old[0].step == g.step && old[0].change == g.change && old[0].refused == g.refused && old[0].body == g.body; {
		case same:
		case g.refused != "":
			differs(g.step, nil)
		default:
			differs(g.step, g.register())
		}
	}
}

// ResultsAfter visits the results whose stamp is not below one.
func (o *Object) ResultsAfter(stamp uint64, visit func(step string, stamp uint64, r *Register)) {
	for _, g := range o.results {
		if g.refused == "" && g.stamp >= stamp {
			visit(g.step, g.stamp, g.register())
		}
	}
}

// Register returns one step's result.
func (o *Object) Register(step string) (Register, bool) {
	i, found := o.result(step)
	if !found || o.results[i].refused != "" {
		return Register{}, false
	}
	return *o.results[i].register(), true
}

// NextAttempt is the number of the next attempt of a step: one more than the
// greatest that is known, whether that one counts or not.
func (o *Object) NextAttempt(step string) uint64 {
	if i, found := o.result(step); found {
		return o.results[i].register().Attempt + 1
	}
	return 1
}

// ResultChange returns the change that wrote a step's register, and its stamp.
func (o *Object) ResultChange(step string) (id ID, stamp uint64, ok bool) {
	i, found := o.result(step)
	if !found || o.results[i].refused != "" {
		return ID{}, 0, false
	}
	return o.results[i].change, o.results[i].stamp, true
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// compareSince orders incarnations by the (stamp, ID) of what began them; those that
// nothing began any more come first.
func compareSince(a, b *Object) int {
	c := cmp.Compare(bit(a.since != nil), bit(b.since != nil))
	if c == 0 && a.since != nil {
		c = a.since.compare(b.since)
	}
	if c == 0 {
		c = a.id.Compare(b.id)
	}
	return c
}
