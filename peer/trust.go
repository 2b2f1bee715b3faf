package peer

import (
	"slices"
	"strings"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// Machine is a member of the cluster.
type Machine struct {
	ID   crdt.MachineID
	Name string
}

// directory is the authorisation log as the core uses it: names and verdicts.
type directory struct {
	*identity.Log
	now   *identity.Snapshot
	names map[crdt.MachineID]string
	ids   map[string]crdt.MachineID
	list  []Machine // sorted by name
}

func newDirectory(l *identity.Log) *directory {
	d := &directory{Log: l}
	d.refresh()
	return d
}

// refresh reads the log again after records were added.
func (d *directory) refresh() {
	d.now = d.Snapshot()
	d.names, d.ids, d.list = map[crdt.MachineID]string{}, map[string]crdt.MachineID{}, nil
	for _, m := range d.now.Members() {
		d.list = append(d.list, Machine{ID: m.ID, Name: m.Name})
		d.names[m.ID], d.ids[m.Name] = m.Name, m.ID
	}
	slices.SortFunc(d.list, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
}

// nameOf returns a machine's name; of a machine that is gone, its ID.
func (c *Core) nameOf(id crdt.MachineID) string {
	if n, ok := c.trust.names[id]; ok {
		return n
	}
	return id.String()
}

func (c *Core) idOf(name string) (crdt.MachineID, bool) {
	id, ok := c.trust.ids[name]
	return id, ok
}
