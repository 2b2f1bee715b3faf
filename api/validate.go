package api

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxSpec is the most that the spec of one object may hold: the bytes of all its
// paths and values.
const MaxSpec = 64 << 10

// Normalize rewrites every value in the one form that is stored, and lists what
// Validate would find. It is the door: whatever a person hands in goes through it.
// Where there are problems, the fields are returned as far as they could be read.
func Normalize(kind string, f Fields) (Fields, []Problem) { return Builtin().Normalize(kind, f) }

// Normalize is the door for objects of any kind of the catalog.
func (c *Catalog) Normalize(kind string, f Fields) (Fields, []Problem) {
	s := c.schemas[kind]
	if s == nil {
		return f.Clone(), []Problem{{Message: c.Unknown(kind)}}
	}
	out, problems := s.checkFields(f)
	return out, s.finish(out, problems)
}

// Validate lists what is wrong with a spec, sorted by path: unknown fields, values of
// the wrong type, missing fields, and what does not fit together. It is pure, so that
// every replica judges a merged spec alike.
func Validate(kind string, f Fields) []Problem { return Builtin().Validate(kind, f) }

// Validate judges objects of any kind of the catalog.
func (c *Catalog) Validate(kind string, f Fields) []Problem {
	_, problems := c.Normalize(kind, f)
	return problems
}

// CheckKey lists what is wrong with the name of an object.
func (c *Catalog) CheckKey(k Key) []Problem {
	kind, ok := c.KindByName(k.Kind)
	if !ok {
		return []Problem{{Path: "kind", Message: c.Unknown(k.Kind)}}
	}
	var problems []Problem
	if err := CheckName(k.Name); err != nil {
		problems = append(problems, Problem{Path: "name", Message: err.Error()})
	}
	if why := checkKindName(k); why != "" {
		problems = append(problems, Problem{Path: "name", Message: why})
	}
	if err := CheckName(k.Namespace); kind.Namespaced && err != nil {
		problems = append(problems, Problem{Path: "namespace", Message: err.Error()})
	}
	if !kind.Namespaced && k.Namespace != "" {
		problems = append(problems, Problem{Path: "namespace", Message: "a " + kind.Name + " has no namespace; leave it out"})
	}
	return problems
}

// finish adds what can only be seen in the whole, where the single values are right.
func (s *schema) finish(f Fields, problems []Problem) []Problem {
	misspelt := parents(problems)
	add := func(path, format string, args ...any) {
		if misspelt[path] {
			return
		}
		p := Problem{Path: path, Message: fmt.Sprintf(format, args...)}
		p.onKey = !f.Has(path)
		problems = append(problems, p)
	}
	s.root.checkRequired("", f, f.index(), add)
	if n := specSize(f); n > MaxSpec {
		add("spec", "the spec has %d bytes, and the limit is %d; move large values into the image or a volume", n, MaxSpec)
	}
	rules(s.kind.Name, f, add)
	return sortProblems(problems)
}

// sortProblems sorts by path and leaves one problem for each, the first: what follows
// from a wrong value is not worth a line of its own.
func sortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(problems, func(a, b Problem) bool { return a.Path == b.Path })
}

// parents returns the paths right above faulty keys: there, a field that is missing is
// most likely the one that is misspelt.
func parents(problems []Problem) map[string]bool {
	if len(problems) == 0 {
		return nil
	}
	above := map[string]bool{}
	for _, p := range problems {
		if segments, err := Split(p.Path); p.onKey && err == nil && len(segments) > 1 {
			above[Join(segments[:len(segments)-1]...)] = true
		}
	}
	return above
}

func specSize(f Fields) int {
	size := 0
	for path, v := range f {
		if Below(path, "spec") {
			size += len(path) + len(v)
		}
	}
	return size
}

// checkFields checks each field alone. An empty map says nothing and is left out.
func (s *schema) checkFields(f Fields) (out Fields, problems []Problem) {
	out = make(Fields, len(f))
	for _, path := range f.Paths() {
		v, problem := s.checkField(path, f[path])
		if problem.Message != "" {
			problems = append(problems, problem)
			v = f[path]
		}
		if v != emptyMap {
			out[path] = v
		}
	}
	return out, problems
}

// emptyMap is how trees and documents hand in a map without members.
const emptyMap = "{}"

// checkField normalizes one value.
func (s *schema) checkField(path, raw string) (string, Problem) {
	n, problem := s.find(path)
	if problem.Message != "" {
		return "", problem
	}
	if n.field == nil {
		if err := n.checkGroup(raw); err != nil {
			return "", Problem{Path: path, Message: err.Error(), onKey: raw == emptyMap}
		}
		return raw, Problem{}
	}
	v, err := n.field.normalize(raw)
	if err != nil {
		return "", Problem{Path: path, Message: err.Error()}
	}
	return v, Problem{}
}

// plainly finds the node of a path that holds nothing to unquote, and of which there is
// nothing to say; else nil. That is nearly every path, and takes no memory.
func (s *schema) plainly(path string) *node {
	if strings.ContainsAny(path, `"*`) {
		return nil
	}
	n := s.root
	for more := true; more; {
		var seg string
		seg, path, more = strings.Cut(path, ".")
		if seg == "" || n.field != nil {
			return nil
		}
		if n = n.child(seg); n == nil || n.group.Key.check(seg) != nil {
			return nil
		}
	}
	return n
}

// find walks a path down the table; the problem, if there is one, is where it leaves
// it.
func (s *schema) find(path string) (*node, Problem) {
	if n := s.plainly(path); n != nil {
		return n, Problem{}
	}
	return s.walk(path)
}

func (s *schema) walk(path string) (*node, Problem) {
	segments, err := Split(path)
	if err != nil {
		return nil, Problem{Path: path, Message: err.Error(), onKey: true}
	}
	if spelled := Join(segments...); spelled != path {
		return nil, Problem{Path: path, Message: "write this path as " + spelled, onKey: true}
	}
	n, at := s.root, ""
	for _, seg := range segments {
		if n.field != nil {
			return nil, Problem{Path: at, Message: n.field.mismatch(emptyMap).Error()}
		}
		next := n.child(escape(seg))
		at = Child(at, seg)
		if next == nil {
			return nil, Problem{Path: at, Message: s.unknownField(n, seg), onKey: true}
		}
		if err := next.group.Key.check(seg); err != nil {
			return nil, Problem{Path: at, Message: err.Error(), onKey: true}
		}
		n = next
	}
	return n, Problem{}
}

// checkGroup judges a value that stands where fields should.
func (n *node) checkGroup(raw string) error {
	if raw != emptyMap {
		return n.wantsMap(raw)
	}
	for _, c := range n.children {
		if c.field != nil && c.field.Required {
			return errors.New(c.field.missing())
		}
	}
	return nil
}

// wantsMap says that a value stands where fields should.
func (n *node) wantsMap(raw string) error {
	switch {
	case sortOf(raw) == "null":
		return fmt.Errorf("there is nothing in it; leave it out")
	case n.star != nil && sortOf(raw) == "a list":
		return fmt.Errorf("this is a list, and here a map by %s belongs; write NAME: in place of - name: NAME", n.star.group.Key)
	case n.star != nil:
		return fmt.Errorf("this is %s, and here a map by %s belongs", sortOf(raw), n.star.group.Key)
	}
	return fmt.Errorf("this is %s, and here the fields %s belong", sortOf(raw), strings.Join(n.names(), ", "))
}

// checkRequired finds entries of maps that lack a required field.
func (n *node) checkRequired(path string, f Fields, x index, add addFunc) {
	for _, c := range n.children {
		switch {
		case c.field != nil && c.field.Required && !f.Has(Child(path, c.name)):
			add(path, "%s", c.field.missing())
		case c == n.star && !c.isLeaf():
			for _, key := range x.keys(path) {
				c.checkRequired(Child(path, key), f, x, add)
			}
		case c != n.star && !c.isLeaf():
			c.checkRequired(Child(path, c.name), f, x, add)
		}
	}
}

func (n *node) isLeaf() bool { return n.field != nil }

// missing says that a required field is not there, and how to write it if its values
// are few.
func (f *Field) missing() string {
	name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	if len(f.Enum) == 1 {
		return fmt.Sprintf("%s is missing; write %s: %s", name, name, f.Enum[0])
	}
	return name + " is missing"
}
