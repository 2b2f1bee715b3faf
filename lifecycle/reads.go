package lifecycle

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strings"

	"starling.dev/starling/api"
)

// Memo keeps, for one object, who reads which of its fields and the hashes of that, so
// that evaluating the object again costs what has changed since. The zero Memo is empty;
// whoever keeps one gives it to [Graph.Reevaluate] only, for objects whose maps are never
// changed.
type Memo struct {
	graph *Graph
	// fields, left and results are the very maps that base and all were made of; derived equals
	// what all was made of.
	fields  api.Fields
	left    map[string]api.Fields
	results map[string]Result
	derived api.Fields
	base    []readField // the fields, sorted
	rest    []readField // what is not of the fields, sorted
	all     []readField // everything, sorted
	spare   []readField // memory of an earlier all
	// restLent and allLent: somebody else reads what stands in rest and all, so that their
	// memory must not be used again.
	restLent, allLent bool
	// kept holds the readers whose hash is in hashes.
	kept   set
	hashes []keptHash
	buffer []byte // reused from hash to hash
	order  []int32
	moved  []readField // memory for sorting
}

type readField struct {
	path, value string
	readers     set
}

type keptHash struct {
	place string
	sum   [32]byte
}

// compare orders by path and value. Steps that listen to other authors may read one path with
// one value, and have to be told apart.
func (f *readField) compare(o *readField) int {
	if c := strings.Compare(f.path, o.path); c != 0 {
		return c
	}
	if c := strings.Compare(f.value, o.value); c != 0 {
		return c
	}
	return cmp.Compare(f.readers, o.readers)
}

func (f readField) comparePath(path string) int { return strings.Compare(f.path, path) }

// read sorts out who reads which of the object's fields.
func (g *Graph) read(o *Object) *Memo {
	m := &Memo{}
	m.read(g, o)
	return m
}

// read takes in the object as it is now, and forgets the hashes of what is another.
func (m *Memo) read(g *Graph, o *Object) {
	if m.graph != g {
		*m = Memo{graph: g, hashes: make([]keptHash, g.readers)}
	}
	fields := m.all != nil && SameMap(m.fields, o.Fields)
	rest := m.all != nil && SameMap(m.left, o.Left) && SameMap(m.results, o.Results) && maps.Equal(m.derived, o.Derived)
	if fields && rest {
		return
	}
	if !fields {
		m.fields, m.base = o.Fields, m.sorted(o.Fields)
	}
	if !rest {
		m.readRest(o)
	}
	next := merge(slices.Grow(m.spare[:0], len(m.base)+len(m.rest)), m.base, m.rest)
	if m.kept != 0 {
		m.kept &^= differing(m.all, next)
	}
	m.all, m.spare = next, m.all
	if m.allLent {
		m.spare, m.allLent = nil, false
	}
}

// readRest sorts out what is not of the fields.
func (m *Memo) readRest(o *Object) {
	m.left, m.results, m.derived = o.Left, o.Results, o.Derived
	if m.rest == nil || m.restLent {
		m.rest, m.restLent = make([]readField, 0, 2*len(o.Results)+len(o.Derived)), false
	}
	m.rest = appendFields(m.rest[:0], o.Derived)
	for _, result := range o.Results {
		m.rest = appendFields(m.rest, result.Outputs)
	}
	m.sort(m.rest)
	m.resolve(m.rest)
	if m.graph.listens != 0 {
		m.rest = m.graph.appendLeft(m.rest, o)
		m.sort(m.rest)
	}
}

// readersOf finds who reads a field as it is: of the spec, not those who read it as some
// authors left it.
func (g *Graph) readersOf(path string) set {
	readers := g.reads.readers(path)
	if g.listens != 0 && api.Below(path, "spec") {
		readers &^= g.listens
	}
	return readers
}

// appendLeft appends what steps that select authors read of the spec.
func (g *Graph) appendLeft(list []readField, o *Object) []readField {
	for _, n := range g.nodes {
		if !g.listens.has(n.at) {
			continue
		}
		var own set
		own.add(n.at)
		if n.generation != 0 {
			own.add(n.generation)
		}
		for path, value := range o.Left[n.name] {
			if readers := g.reads.readers(path) & own; readers != 0 && api.Below(path, "spec") {
				list = append(list, readField{path, value, readers})
			}
		}
	}
	return list
}

// Listening names the steps that select authors, and whom.
func (g *Graph) Listening() map[string]api.Authors {
	var all map[string]api.Authors
	for _, n := range g.nodes {
		if g.listens.has(n.at) {
			if all == nil {
				all = map[string]api.Authors{}
			}
			all[n.name] = n.step.Authors
		}
	}
	return all
}

// sorted lists fields with their readers, by path. Most are as they were before, so that
// they need not be sorted again.
func (m *Memo) sorted(fields api.Fields) []readField {
	list := make([]readField, 0, len(fields))
	for i := range m.base {
		if f := &m.base[i]; len(list) < len(fields) {
			if value, ok := fields[f.path]; ok {
				list = append(list, readField{f.path, value, f.readers})
			}
		}
	}
	if len(list) == len(fields) {
		return list
	}
	few := len(fields)-len(list) <= 8
	for path, value := range fields {
		if _, known := m.fields[path]; known {
			continue
		}
		at := len(list)
		if few {
			at, _ = slices.BinarySearchFunc(list, path, readField.comparePath)
		}
		list = slices.Insert(list, at, readField{path, value, m.graph.readersOf(path)})
	}
	if !few {
		m.sort(list)
	}
	return list
}

// sort sorts fields by path: their places are sorted first, since to move strings is dear.
func (m *Memo) sort(list []readField) {
	order := slices.Grow(m.order[:0], len(list))
	for i := range list {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int { return list[i].compare(&list[j]) })
	m.moved = append(m.moved[:0], list...)
	for to, from := range order {
		list[to] = m.moved[from]
	}
	m.order = order
}

// fork returns a memo that goes on from what m knows, which may be nothing. Both have what
// is known in common, and the memory for sorting and hashing.
func (m *Memo) fork() *Memo {
	if m == nil {
		return &Memo{}
	}
	f := *m
	f.hashes, f.spare, f.restLent, f.allLent = slices.Clone(m.hashes), nil, true, true
	return &f
}

// lend returns everything that was read, which stays as it is whatever is read next.
func (m *Memo) lend() []readField {
	m.allLent = true
	return m.all
}

// SameMap reports whether both are one map, not only equal.
func SameMap[M ~map[string]V, V any](a, b M) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func appendFields(list []readField, f api.Fields) []readField {
	for path, value := range f {
		list = append(list, readField{path: path, value: value})
	}
	return list
}

// resolve finds the readers of sorted fields: of those that were there before it is
// known.
func (m *Memo) resolve(list []readField) {
	known := m.all
	for i := range list {
		f := &list[i]
		for len(known) > 0 && known[0].path < f.path {
			known = known[1:]
		}
		if len(known) > 0 && known[0].path == f.path {
			f.readers = known[0].readers
		} else {
			f.readers = m.graph.reads.readers(f.path)
		}
	}
}

// merge appends two sorted lists, in order.
func merge(into, a, b []readField) []readField {
	for len(a) > 0 && len(b) > 0 {
		if a[0].compare(&b[0]) <= 0 {
			into, a = append(into, a[0]), a[1:]
		} else {
			into, b = append(into, b[0]), b[1:]
		}
	}
	return append(append(into, a...), b...)
}

// differing returns the readers of what is in one of two sorted lists only.
func differing(a, b []readField) (readers set) {
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].compare(&b[0]); {
		case c == 0:
			a, b = a[1:], b[1:]
		case c < 0:
			readers, a = readers|a[0].readers, a[1:]
		default:
			readers, b = readers|b[0].readers, b[1:]
		}
	}
	for _, f := range a {
		readers |= f.readers
	}
	for _, f := range b {
		readers |= f.readers
	}
	return readers
}

// hash is the hash that a result keeps, and that tells whether it is current. The
// place is part of what a step on a machine reads: elsewhere is a new run. Lengths
// stand before what they measure, so that no two readings look alike.
func (m *Memo) hash(reader int, place string) [32]byte {
	k := &m.hashes[reader]
	if m.kept.has(reader) && k.place == place {
		return k.sum
	}
	if m.buffer == nil {
		m.buffer = make([]byte, 0, 1024)
	}
	b := appendText(m.buffer[:0], place)
	for i := range m.all {
		if f := &m.all[i]; f.readers.has(reader) {
			b = appendText(appendText(b, f.path), f.value)
		}
	}
	m.buffer = b
	k.place, k.sum = place, sha256.Sum256(b)
	m.kept.add(reader)
	return k.sum
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// fieldsOf returns what the reader is given: nothing that it does not declare.
func (m *Memo) fieldsOf(reader int) api.Fields {
	n := 0
	for i := range m.all {
		if m.all[i].readers.has(reader) {
			n++
		}
	}
	out := make(api.Fields, n)
	for i := range m.all {
		if f := &m.all[i]; f.readers.has(reader) {
			out[f.path] = f.value
		}
	}
	return out
}

// ReadsHash returns the hash of what the step reads of the object; machine is the
// place of steps that run on one.
func (g *Graph) ReadsHash(o *Object, step, machine string) [32]byte {
	n, ok := g.index[step]
	if !ok || n.step == nil {
		return [32]byte{}
	}
	if n.step.Where != OnMachine {
		machine = ""
	}
	return g.read(o).hash(n.at, machine)
}
