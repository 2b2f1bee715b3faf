package crdt

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Compare orders names by kind, namespace and name.
func (r Ref) Compare(o Ref) int {
	if c := strings.Compare(r.Kind, o.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(r.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(r.Name, o.Name)
}

// Refusal is a change without effect, and why.
type Refusal struct {
	Change ID
	Author string
	HLC    uint64
	Reason string
}

// maxRefusals bounds what an incarnation remembers of changes that were refused and are no
// revs. The latest are kept, by (HLC, ID): the same ones at every replica.
const maxRefusals = 32

// slot is everything that was ever said about one name.
type slot struct {
	ref       Ref
	*contents // nil while the slot is at rest
	// packed and stored hold the contents while nothing was said since: in memory, or in
	// the file of a checkpoint. A slot that is open may have neither.
	packed *string
	stored place
	hash   *ID   // of the slot, as it is in State.sum; nil if nobody ever asked
	held   int32 // changes that wait for a higher level
	dirty  bool  // in State.dirty: hash is not that of the slot as it is now
	listed bool  // in State.kinds
	// discarded: nothing is known of the name any more, and State.slots does not hold it.
	discarded bool
}

// incarnation finds an identity, or returns nil.
func (sl *contents) incarnation(id ID) (line *lineage, gen int) {
	for _, l := range sl.lines {
		for g, o := range l.gens {
			if o.id == id {
				return l, g
			}
		}
	}
	return nil, 0
}

func (sl *contents) find(created ID) bool {
	return slices.ContainsFunc(sl.lines, func(l *lineage) bool { return l.root().id == created })
}

func (r Refusal) compare(o Refusal) int {
	if c := cmp.Compare(o.HLC, r.HLC); c != 0 {
		return c
	}
	return bytes.Compare(o.Change[:], r.Change[:])
}

// refusals are the latest that were refused, in order, latest first.
type refusals []Refusal

func (all *refusals) add(r Refusal) Outcome {
	i, found := slices.BinarySearchFunc(*all, r, Refusal.compare)
	if found {
		return Repeated
	}
	*all = slices.Insert(*all, i, r)
	if len(*all) > maxRefusals {
		*all = (*all)[:maxRefusals]
	}
	return Declined
}

// refused returns the latest of a name. Each incarnation remembers its own, so that those of
// one that is collected go with it, and push no others out before.
func (sl *contents) refused() refusals {
	all := slices.Clone(sl.refusals)
	for _, l := range sl.lines {
		all = append(all, l.refusals...)
	}
	slices.SortFunc(all, Refusal.compare)
	return all[:min(len(all), maxRefusals)]
}

// settle decides who holds the name, and tells each incarnation how it stands.
func (sl *contents) settle(held bool) {
	winner, losers := sl.contest()
	for _, l := range sl.lines {
		for g, o := range l.gens {
			l.gens[g] = o.standing(o == winner, held, losers)
		}
	}
	sl.view = sl.holder()
}

// contest finds the live incarnation with the lowest (stamp, ID), and the others.
func (sl *contents) contest() (winner *Object, losers []Loser) {
	live := make([]*Object, 0, 4) // usually one, so that this stays on the stack
	for _, l := range sl.lines {
		for _, o := range l.gens {
			if o.live() {
				live = append(live, o)
			}
		}
	}
	if len(live) == 0 {
		return nil, nil
	}
	slices.SortFunc(live, compareSince)
	for _, o := range live[1:] {
		losers = append(losers, Loser{o.id, o.creator})
	}
	return live[0], losers
}

// standing returns the object with its relation to its name brought up to date.
func (o *Object) standing(holds, held bool, losers []Loser) *Object {
	if !holds {
		losers = nil
	}
	if o.holds == holds && o.held == held && slices.Equal(o.losers, losers) {
		return o
	}
	next := *o
	next.holds, next.held, next.losers = holds, held, losers
	return &next
}

// holder returns who has the name; failing that, the deleted one that began last.
func (sl *contents) holder() *Object {
	var last *Object
	for _, l := range sl.lines {
		for _, o := range l.gens {
			if o.holds {
				return o
			}
			if o.Deleted() && o.shown() && (last == nil || compareSince(last, o) < 0) {
				last = o
			}
		}
	}
	return last
}

// incarnations returns all that there is to see, in the order in which they began.
func (sl *contents) incarnations() []*Object {
	var all []*Object
	for _, l := range sl.lines {
		for _, o := range l.gens {
			if o.shown() {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, compareSince)
	return all
}

// index lists the names of a kind that have a view, in order. Additions gather in fresh
// and are merged by the next reader, so that loading many costs no more than
// sorting them.
type index struct {
	sorted, fresh []*slot
	discarded     int // of those, how many are to be left out
}

func compareSlots(a, b *slot) int { return a.ref.Compare(b.ref) }

func (x *index) all() []*slot {
	if x.discarded > 0 {
		gone := func(sl *slot) bool { return sl.discarded }
		x.sorted, x.fresh = slices.DeleteFunc(x.sorted, gone), slices.DeleteFunc(x.fresh, gone)
		x.discarded = 0
	}
	if len(x.fresh) == 0 {
		return x.sorted
	}
	slices.SortFunc(x.fresh, compareSlots)
	i, j := len(x.sorted)-1, len(x.fresh)-1
	x.sorted = append(x.sorted, x.fresh...)
	for k := len(x.sorted) - 1; j >= 0; k-- { // merge from the back, in place
		if i >= 0 && compareSlots(x.sorted[i], x.fresh[j]) > 0 {
			x.sorted[k] = x.sorted[i]
			i--
		} else {
			x.sorted[k] = x.fresh[j]
			j--
		}
	}
	x.fresh = nil
	return x.sorted
}
