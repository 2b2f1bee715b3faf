package api

// Effective returns the fields with defaults filled in, as everything that reads an
// object sees it. Defaults below a map's key appear for the keys that are present.
// Neither is the argument changed nor is anything of the result ever stored.
func Effective(kind string, f Fields) Fields { return Builtin().Effective(kind, f) }

// Effective fills in the defaults of any kind of the catalog.
func (c *Catalog) Effective(kind string, f Fields) Fields {
	out := f.Clone()
	s := c.schemas[kind]
	if s == nil {
		return out
	}
	x := f.index()
	s.root.fill(out, "", x)
	if kind == podKind.Name && !out.Has("spec.partition") {
		out["spec.partition"] = Str(defaultPartition(x))
	}
	return out
}

// defaultPartition: volumes hold what can't be had elsewhere, so a pod with volumes
// waits for its machine.
func defaultPartition(x index) string {
	if len(x.keys("spec.volumes")) > 0 {
		return PartitionPinned
	}
	return PartitionReplace
}

// fill sets the defaults at and below the node, whose path is prefix, of an object
// with the paths x.
func (n *node) fill(out Fields, prefix string, x index) {
	if n.field != nil {
		if _, ok := out[prefix]; !ok {
			out[prefix] = n.field.Default
		}
		return
	}
	for _, c := range n.children {
		switch {
		case !c.defaults:
			continue
		case c.static:
			c.fill(out, c.path, x)
			continue
		case c != n.star:
			c.fill(out, Child(prefix, c.name), x)
			continue
		}
		for _, key := range x.keys(prefix) {
			c.fill(out, Child(prefix, key), x)
		}
	}
}
