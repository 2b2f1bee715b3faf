package crdt

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Most objects are at rest. Of those a State keeps one string each, which holds all that
// was ever said about the name, or where it stands in a checkpoint's file, and opens it when
// somebody asks. Law: opening what was packed gives the same slot, to the byte of its digest.
//
//	slot     version, refusals, lines
//	refusal  change:32, author, hlc:8, reason
//	line     nodes, generations, refusals
//	node     id:32, stamp:8, number, generation, traits:1, refused, parents (their
//	         places among the nodes), body
//	results  of each generation: step, stamp:8, change:32, refused, body
//
// Fields, heads and who has the name follow from that, by the fold's own rules.
const packVersion = 3

// defaultOpen is how many objects are kept open.
const defaultOpen = 1024

// contents is what an open slot holds.
type contents struct {
	lines    []*lineage // in order of arrival; nothing may depend on it
	refusals refusals   // of changes that no incarnation's rules judged
	view     *Object    // who has the name, or had it last; nil if nobody ever did
	used     bool       // since it was last considered for packing
}

// openSlots is the queue of the slots that are open, the longest open first.
type openSlots struct {
	limit int
	queue []*slot
}

// at returns what is known of a name, opened; nil if that is nothing.
func (s *State) at(ref Ref) *slot {
	sl := s.slots[ref]
	if sl != nil {
		s.open(sl)
	}
	return sl
}

// open makes the contents of a slot accessible, until the next call of trim.
func (s *State) open(sl *slot) {
	if sl.contents != nil {
		sl.used = true
		return
	}
	sl.contents = s.unpack(sl)
	sl.used = true
	s.opened.queue = append(s.opened.queue, sl)
}

// trim packs what was open longest and was not used again, down to the limit.
func (s *State) trim() {
	for len(s.opened.queue) > s.opened.limit {
		sl := s.opened.queue[0]
		s.opened.queue = s.opened.queue[1:]
		if sl.discarded {
			continue
		}
		if sl.used {
			sl.used = false
			s.opened.queue = append(s.opened.queue, sl)
			continue
		}
		s.keep(sl)
		sl.contents = nil
	}
}

// keep packs an open slot, if that was not done since it was last another.
func (s *State) keep(sl *slot) {
	if sl.packed == nil && !sl.stored.there() {
		s.scratch = sl.pack(s.scratch[:0])
		packed := string(s.scratch)
		sl.packed = &packed
		s.inMemory += len(packed)
	}
}

func (sl *slot) pack(b []byte) []byte {
	b = append(b, packVersion)
	b = sl.refusals.pack(b)
	b = binary.AppendUvarint(b, uint64(len(sl.lines)))
	for _, l := range sl.lines {
		b = l.pack(b)
	}
	return b
}

func (all refusals) pack(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, r := range all {
		b = append(b, r.Change[:]...)
		b = appendString(b, r.Author)
		b = binary.BigEndian.AppendUint64(b, r.HLC)
		b = appendString(b, r.Reason)
	}
	return b
}

func (r *reader) refusals() (all refusals) {
	for range r.uvarint(maxRefusals, "refusals") {
		all = append(all, Refusal{r.id("refused change"), r.bytes(noLimit, "author"), r.uint64("hlc"), r.bytes(noLimit, "reason")})
	}
	return all
}

func (l *lineage) pack(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.nodes)))
	for _, n := range l.nodes {
		b = append(b, n.id[:]...)
		b = binary.BigEndian.AppendUint64(b, n.stamp)
		b = binary.AppendUvarint(b, n.number)
		b = binary.AppendUvarint(b, uint64(n.gen))
		b = append(b, byte(n.traits))
		b = appendString(b, n.refused)
		b = binary.AppendUvarint(b, uint64(len(n.parents)))
		for _, p := range n.parents { // a parent stands before its children
			place, _ := slices.BinarySearchFunc(l.nodes, p, (*node).compare)
			b = binary.AppendUvarint(b, uint64(place))
		}
		b = appendString(b, n.body)
	}
	b = binary.AppendUvarint(b, uint64(len(l.gens)))
	for _, o := range l.gens {
		b = binary.AppendUvarint(b, uint64(len(o.results)))
		for _, g := range o.results {
			b = appendString(b, g.step)
			b = binary.BigEndian.AppendUint64(b, g.stamp)
			b = append(b, g.change[:]...)
			b = appendString(b, g.refused)
			b = appendString(b, g.body)
		}
	}
	return l.refusals.pack(b)
}

// unpack reads the contents of a slot. The strings in it are parts of the packed one.
func (s *State) unpack(sl *slot) *contents {
	r := &reader{}
	switch {
	case sl.packed != nil:
		r.rest = *sl.packed
	case sl.stored.there():
		r.rest = s.load(sl)
	}
	c := s.readContents(r, sl.ref)
	if err := r.end("packed object"); err != nil {
		panic(fmt.Sprintf("%s: what was packed can't be read: %v", sl.ref, err)) // it never left this program, or was checked
	}
	c.settle(sl.held > 0)
	return c
}

// noLimit stands for the lengths in what was checked when it came.
const noLimit = 1 << 31

func (s *State) readContents(r *reader, ref Ref) *contents {
	c := &contents{}
	if r.rest == "" {
		return c // a name of which nothing was said yet
	}
	if r.byte("version") != packVersion {
		r.fail("the version", "is unknown")
	}
	c.refusals = r.refusals()
	for range r.uvarint(uint64(len(r.rest)), "lines") {
		c.lines = append(c.lines, s.readLine(r, ref))
	}
	return c
}

func (s *State) readLine(r *reader, ref Ref) *lineage {
	l := &lineage{}
	count := r.uvarint(uint64(len(r.rest)), "nodes")
	l.nodes = make([]*node, 0, min(count, 64))
	ops := make([][]Op, 0, cap(l.nodes))
	for range count {
		if n, o := l.readNode(r); r.err == nil {
			l.nodes, ops = append(l.nodes, n), append(ops, o)
		}
	}
	if r.err != nil || len(l.nodes) == 0 {
		r.fail("a line", "has no nodes")
		return l
	}
	l.refold(ref, ops)
	if gens := r.uvarint(uint64(len(r.rest)), "generations"); int(gens) != len(l.gens) {
		r.fail("generations", "are others than the fold gives")
	}
	for i := range l.gens {
		l.gens[i].results = s.readResults(r)
	}
	l.refusals = r.refusals()
	return l
}

func (l *lineage) readNode(r *reader) (*node, []Op) {
	n := &node{id: r.id("node"), stamp: r.uint64("stamp"), number: r.uvarint(maxSeq, "number"), gen: int(r.uvarint(noLimit, "generation"))}
	n.traits = trait(r.byte("traits"))
	n.refused = r.bytes(noLimit, "refusal")
	for range r.uvarint(uint64(len(r.rest)), "parents") {
		if i := int(r.uvarint(noLimit, "parent")); i < len(l.nodes) {
			n.parents = append(n.parents, l.nodes[i])
		} else {
			r.fail("a parent", "stands behind its child")
		}
	}
	if n.body = r.bytes(noLimit, "body"); r.err != nil {
		return n, nil
	}
	c := n.change()
	n.author = c.Author
	return n, c.Ops
}

// refold finds the generations anew from the nodes, whose operations are given.
func (l *lineage) refold(ref Ref, ops [][]Op) {
	root := l.root()
	first := &Object{ref: ref, id: root.id, creator: root.author, since: root}
	l.gens = []*Object{first}
	if slices.ContainsFunc(l.nodes, func(n *node) bool { return n.is(traitDeletes) && n.counts() }) {
		l.rebuild()
		return
	}
	first.nodes = l.nodes
	for i, n := range l.nodes {
		if n.counts() {
			first.cells = writeOps(first.cells, n, ops[i])
			if n.is(traitCausal) {
				first.heads = advance(first.heads, n)
			}
		}
	}
}

func (s *State) readResults(r *reader) []stepResult {
	count := r.uvarint(uint64(len(r.rest)), "results")
	if count == 0 {
		return nil
	}
	results := make([]stepResult, 0, count)
	for range count {
		g := stepResult{step: s.names.One(r.bytes(noLimit, "step")), stamp: r.uint64("stamp"), change: r.id("change")}
		g.refused = r.bytes(noLimit, "refusal")
		g.body = r.bytes(noLimit, "result")
		results = append(results, g)
	}
	return results
}
