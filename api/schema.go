package api

// schema is a kind's table as a tree, built once: looking a path up costs one map
// access per segment.
type schema struct {
	kind  *Kind
	root  *node
	steps map[string]string // step -> loop
}

// node is one path of a kind's table.
type node struct {
	name     string // the segment; "*" for any key
	path     string // the pattern
	field    *Field // nil for a path that only has fields below it
	group    Group
	required bool    // a field directly in this group must be present
	children []*node // in the table's order
	byName   map[string]*node
	star     *node
	owner    string // of the field, or of all fields below
	mixed    bool   // the fields below have several owners
	defaults bool   // the field, or one below, has a default
	static   bool   // the pattern has no "*", so that it is the one path
}

// schemaOf returns the tree of a kind, nil for one that is not built in.
func schemaOf(kind string) *schema { return Builtin().schemas[kind] }

func newSchema(kind *Kind) *schema {
	s := &schema{kind: kind, root: &node{byName: map[string]*node{}, static: true}, steps: map[string]string{}}
	for i := range kind.Fields {
		s.add(&kind.Fields[i])
	}
	for _, g := range kind.Groups {
		if n := s.lookup(g.Path); n != nil {
			n.group = g
		}
	}
	for _, st := range kind.Steps {
		s.steps[st.Name] = st.Owner
	}
	s.root.settle()
	return s
}

func (s *schema) add(f *Field) {
	n, path := s.root, ""
	for seg, rest, more := cut(f.Path); ; seg, rest, more = cut(rest) {
		if path += seg; more {
			n = n.grow(seg, path)
			path += "."
			continue
		}
		n.required = n.required || f.Required
		n = n.grow(seg, path)
		break
	}
	n.field = f
	if f.Owner != People && f.Owner != OwnerParent {
		s.steps[f.Owner] = f.Owner
	}
}

// grow returns the child of that name, made if it is not there.
func (n *node) grow(name, path string) *node {
	if c := n.byName[name]; c != nil {
		return c
	}
	c := &node{name: name, path: path, byName: map[string]*node{}, static: n.static && name != "*"}
	n.byName[name] = c
	n.children = append(n.children, c)
	if name == "*" {
		n.star = c
	}
	return c
}

// settle computes what a node says about the fields below it.
func (n *node) settle() {
	if n.field != nil {
		n.owner, n.defaults = n.field.Owner, n.field.Default != ""
	}
	for i, c := range n.children {
		c.settle()
		if i == 0 {
			n.owner = c.owner
		}
		n.mixed = n.mixed || c.mixed || c.owner != n.owner
		n.defaults = n.defaults || c.defaults
	}
}

// child returns the node for a segment as spelled in a path or a pattern.
func (n *node) child(seg string) *node {
	if n.star != nil {
		return n.star
	}
	return n.byName[seg]
}

// lookup finds the node of a path or of a pattern; nil if the table has none.
func (s *schema) lookup(path string) *node {
	n, more := s.root, path != ""
	for more && n != nil {
		var seg string
		seg, path, more = cut(path)
		n = n.child(seg)
	}
	return n
}
