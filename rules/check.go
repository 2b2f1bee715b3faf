package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"starling.dev/starling/api"
)

// Check lists the rules that a spec breaks, by the order of their names. The spec has to
// be one that the kind's table takes.
func (s *Set) Check(f api.Fields) []api.Problem {
	if len(s.rules) == 0 {
		return nil
	}
	vars := map[string]any{"spec": s.tree(s.catalog.Effective(s.kind, f))}
	var problems []api.Problem
	for _, r := range s.rules {
		out, _, err := r.program.Eval(vars)
		switch {
		case err != nil:
			problems = append(problems, api.Problem{Path: r.field, Message: fmt.Sprintf(
				"%s (the rule %s can't be computed: %s)", r.message, r.name, reason(err))})
		case out != types.True:
			problems = append(problems, api.Problem{Path: r.field, Message: fmt.Sprintf("%s (rule %s)", r.message, r.name)})
		}
	}
	return problems
}

// reason adds what to do to the error that people meet most.
func reason(err error) string {
	text := err.Error()
	if strings.HasPrefix(text, "no such key") {
		text += "; ask for it with has() first"
	}
	return text
}

// tree is the spec as expressions see it: maps within maps, each walked by its keys in
// order. A group of fields is there even when it is empty, so that has() may ask for what
// is in it.
func (s *Set) tree(f api.Fields) ref.Val {
	root := branch{}
	for _, field := range s.fields() {
		segments, err := api.Split(field.Path)
		if err == nil {
			root.grow(segments[1 : len(segments)-1])
		}
	}
	for _, path := range f.Paths() {
		segments, err := api.Split(path)
		field, known := s.catalog.FieldOf(s.kind, path)
		if err != nil || !known || segments[0] != "spec" {
			continue
		}
		b := root.below(segments[1 : len(segments)-1])
		b[segments[len(segments)-1]] = value(field.Type, f, path)
	}
	return root.val()
}

func (s *Set) fields() []api.Field {
	k, _ := s.catalog.KindByName(s.kind)
	return slices.DeleteFunc(slices.Clone(k.Fields), func(f api.Field) bool { return !strings.HasPrefix(f.Path, "spec.") })
}

// branch is a map of values and of further branches.
type branch map[string]any

// grow makes the branches of a path as far as it names no keys.
func (b branch) grow(segments []string) {
	if n := slices.Index(segments, "*"); n >= 0 {
		segments = segments[:n]
	}
	b.below(segments)
}

func (b branch) below(segments []string) branch {
	for _, seg := range segments {
		next, ok := b[seg].(branch)
		if !ok {
			next = branch{}
			b[seg] = next
		}
		b = next
	}
	return b
}

func (b branch) val() ref.Val {
	m := make(map[string]any, len(b))
	for key, v := range b {
		if below, ok := v.(branch); ok {
			v = below.val()
		}
		m[key] = v
	}
	return ordered{types.NewStringInterfaceMap(types.DefaultTypeAdapter, m), slices.Sorted(maps.Keys(b))}
}

// ordered is a map that is walked in the order of its keys: Go's own order differs from
// run to run, and so would the cost of an evaluation and what it makes of the entries.
type ordered struct {
	traits.Mapper
	keys []string
}

// Iterator walks the keys.
func (o ordered) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.keys).Iterator()
}

// value is one field as expressions see it.
func value(t api.Type, f api.Fields, path string) any {
	switch t {
	case api.TypeInt, api.TypePort:
		return f.Int(path)
	case api.TypeBool:
		return f.Bool(path)
	case api.TypeStrings:
		return f.Strings(path)
	case api.TypeCPU:
		return f.CPU(path)
	case api.TypeBytes:
		return f.Bytes(path)
	case api.TypeDuration:
		return f.Duration(path)
	case api.TypeTime:
		return f.Time(path)
	case api.TypeString:
		return f.String(path)
	}
	return f[path] // the JSON text: what is in it no table knows
}
