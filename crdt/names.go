package crdt

import "strings"

// Names keeps one copy of each of the names that many objects hold: one that was decoded
// with its object would keep all of that in memory. It is not safe for concurrent use.
type Names struct {
	limit int
	all   map[string]string
}

// NewNames keeps up to limit names; there are few, unless somebody is hostile.
func NewNames(limit int) *Names { return &Names{limit, map[string]string{}} }

// One returns the one copy of a name.
func (n *Names) One(name string) string {
	if known, ok := n.all[name]; ok {
		return known
	}
	name = strings.Clone(name)
	if len(n.all) < n.limit {
		n.all[name] = name
	}
	return name
}
