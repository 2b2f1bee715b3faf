package lifecycle

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"starling.dev/starling/api"
)

// readTree finds who reads a path: the declared reads of all steps, segment by
// segment. A pattern covers every path that it is a prefix of; "*" stands for any one
// segment.
type readTree struct {
	here set // the patterns that end here
	kids map[string]*readTree
	any  *readTree
}

func (t *readTree) add(pattern string, reader int) {
	for pattern != "" {
		var segment string
		segment, pattern = nextSegment(pattern)
		t = t.child(segment)
	}
	t.here.add(reader)
}

func (t *readTree) child(segment string) *readTree {
	if segment == "*" {
		if t.any == nil {
			t.any = &readTree{}
		}
		return t.any
	}
	if t.kids == nil {
		t.kids = map[string]*readTree{}
	}
	if t.kids[segment] == nil {
		t.kids[segment] = &readTree{}
	}
	return t.kids[segment]
}

// readers walks the path without cutting it up: evaluation runs for every change.
func (t *readTree) readers(path string) set {
	found := t.here
	if path == "" || (t.kids == nil && t.any == nil) {
		return found
	}
	segment, rest := nextSegment(path)
	if kid, ok := t.kids[segment]; ok {
		found |= kid.readers(rest)
	}
	if t.any != nil {
		found |= t.any.readers(rest)
	}
	return found
}

// nextSegment cuts the first segment off. A segment that begins with a quote is a
// JSON string and may hold dots.
func nextSegment(path string) (segment, rest string) {
	if path[0] != '"' {
		segment, rest, _ = strings.Cut(path, ".")
		return segment, rest
	}
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '"':
			return path[:i+1], strings.TrimPrefix(path[i+1:], ".")
		}
	}
	return path, ""
}

// reading is what the steps of a graph read of one object: each field once, with its
// readers.
type reading struct {
	fields []readField
	order  []int32 // the places of the fields, sorted by path
	buffer []byte  // reused from hash to hash
}

type readField struct {
	path, value string
	readers     set
}

// read sorts out who reads which of the object's fields.
func (g *Graph) read(o *Object) reading {
	r := reading{fields: make([]readField, 0, len(o.Fields)+len(o.Results)), buffer: make([]byte, 0, 1024)}
	for path, value := range o.Fields {
		r.add(g, path, value)
	}
	for _, result := range o.Results {
		for path, value := range result.Outputs {
			r.add(g, path, value)
		}
	}
	r.order = make([]int32, len(r.fields))
	for i := range r.order {
		r.order[i] = int32(i)
	}
	slices.SortFunc(r.order, func(i, j int32) int { // places move, strings don't
		a, b := &r.fields[i], &r.fields[j]
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	return r
}

func (r *reading) add(g *Graph, path, value string) {
	if readers := g.reads.readers(path); readers != 0 {
		r.fields = append(r.fields, readField{path, value, readers})
	}
}

// hash is the hash that a result keeps, and that tells whether it is current. The
// place is part of what a step on a machine reads: elsewhere is a new run. Lengths
// stand before what they measure, so that no two readings look alike.
func (r *reading) hash(reader int, place string) [32]byte {
	b := appendText(r.buffer[:0], place)
	for _, i := range r.order {
		if f := &r.fields[i]; f.readers.has(reader) {
			b = appendText(appendText(b, f.path), f.value)
		}
	}
	r.buffer = b
	return sha256.Sum256(b)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// fieldsOf returns what the reader is given: nothing that it does not declare.
func (r *reading) fieldsOf(reader int) api.Fields {
	out := api.Fields{}
	for i := range r.fields {
		if f := &r.fields[i]; f.readers.has(reader) {
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
	r := g.read(o)
	return r.hash(n.at, machine)
}
