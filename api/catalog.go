package api

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Catalog holds the tables of all kinds that somebody knows: the built-in ones, and those
// that people defined with Kind objects. It is immutable.
type Catalog struct {
	kinds   []Kind // sorted by name
	schemas map[string]*schema
}

// Builtin returns the kinds that every peer knows.
func Builtin() *Catalog { return builtin() }

var builtin = sync.OnceValue(func() *Catalog { return (&Catalog{}).With(builtinKinds...) })

// With returns the catalog with more kinds. One of the same name replaces the old one.
func (c *Catalog) With(more ...Kind) *Catalog {
	all := &Catalog{schemas: make(map[string]*schema, len(c.kinds)+len(more))}
	for _, k := range c.kinds {
		if !slices.ContainsFunc(more, func(m Kind) bool { return m.Name == k.Name }) {
			all.kinds = append(all.kinds, k)
			all.schemas[k.Name] = c.schemas[k.Name]
		}
	}
	for i := range more {
		all.kinds = append(all.kinds, more[i])
		all.schemas[more[i].Name] = newSchema(&more[i])
	}
	slices.SortFunc(all.kinds, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// fieldTarget is where an object's goal stands, in every kind.
const fieldTarget = "lifecycle.target"

// WithGoals returns the catalog with more targets that objects of a kind can be switched to.
func (c *Catalog) WithGoals(kind string, goals ...string) *Catalog {
	i := slices.IndexFunc(c.kinds, func(k Kind) bool { return k.Name == kind })
	if i < 0 || len(goals) == 0 {
		return c
	}
	k := c.kinds[i]
	k.Fields = slices.Clone(k.Fields)
	for i := range k.Fields {
		if f := &k.Fields[i]; f.Path == fieldTarget {
			f.Enum = slices.Concat(f.Enum, goals)
		}
	}
	return c.With(k)
}

// Kinds returns the tables, sorted by name. The caller must not change them.
func (c *Catalog) Kinds() []Kind { return c.kinds }

// Names returns the names of the kinds.
func (c *Catalog) Names() []string {
	names := make([]string, len(c.kinds))
	for i := range c.kinds {
		names[i] = c.kinds[i].Name
	}
	return names
}

// KindByName finds a kind by its name or plural, in any case. A name goes before a plural.
func (c *Catalog) KindByName(s string) (Kind, bool) {
	for _, of := range []func(Kind) string{func(k Kind) string { return k.Name }, func(k Kind) string { return k.Plural }} {
		for _, k := range c.kinds {
			if strings.EqualFold(s, of(k)) {
				return k, true
			}
		}
	}
	return Kind{}, false
}

// Unknown says that there is no such kind, and which may be meant.
func (c *Catalog) Unknown(kind string) string {
	if k, ok, instead := c.Counterpart(kind); ok {
		return fmt.Sprintf("there is no kind %q; here that is a %s (`peer explain %s`)", kind, k.Name, k.Name)
	} else if instead != "" {
		return fmt.Sprintf("there is no kind %q: %s", kind, instead)
	}
	return fmt.Sprintf("there is no kind %q; the kinds are %s%s", kind, strings.Join(c.Names(), ", "), didYouMean(kind, c.Names()))
}

// ParseKey reads "pod/web", "pod/shop/web" or "machine/m1". The kind may be
// written in any case and in the plural. A lone name is taken as a pod.
func (c *Catalog) ParseKey(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 1 {
		parts = []string{"pod", parts[0]}
	}
	kind, ok := c.KindByName(parts[0])
	if !ok {
		return Key{}, fmt.Errorf("%q: %s", s, c.Unknown(parts[0]))
	}
	key := Key{Kind: kind.Name, Name: parts[len(parts)-1]}
	if kind.Namespaced {
		key.Namespace = DefaultNamespace
	}
	switch {
	case len(parts) == 3 && kind.Namespaced:
		key.Namespace = parts[1]
	case len(parts) != 2:
		return Key{}, fmt.Errorf("%q: write an object as KIND/NAME or KIND/NAMESPACE/NAME", s)
	}
	if key.Name == "" || (kind.Namespaced && key.Namespace == "") {
		return Key{}, fmt.Errorf("%q: the name is empty", s)
	}
	return key, nil
}

// FieldOf returns the row of a field, by its path or its pattern.
func (c *Catalog) FieldOf(kind, path string) (Field, bool) {
	s := c.schemas[kind]
	if s == nil {
		return Field{}, false
	}
	if n := s.lookup(path); n != nil && n.field != nil {
		return *n.field, true
	}
	return Field{}, false
}

// CheckPattern says what is wrong with a path, or a pattern, that is meant to cover fields
// of a kind; "" if nothing is.
func (c *Catalog) CheckPattern(kind, pattern string) string {
	s := c.schemas[kind]
	if s == nil {
		return c.Unknown(kind)
	}
	if _, foreign := foreignOwner(pattern); foreign || pattern == foreignStatus {
		return ""
	}
	n, at := s.root, ""
	for more := true; more; {
		var seg string
		seg, pattern, more = cut(pattern)
		next := n.child(seg)
		if next == nil && n.field == nil {
			return fmt.Sprintf("a %s has no %s: %s", kind, join(at, seg), s.unknownField(n, unescape(seg)))
		}
		if next == nil {
			return fmt.Sprintf("%s.%s has no fields below it", kind, at)
		}
		n, at = next, join(at, seg)
	}
	return ""
}

func join(path, spelled string) string {
	if path == "" {
		return spelled
	}
	return path + "." + spelled
}
