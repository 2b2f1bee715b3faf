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
	root  crdt.ID // the digest of all records
	names map[crdt.MachineID]string
	ids   map[string]crdt.MachineID
	list  []Machine // sorted by name
	// others: there are other members, or others of their names, than the engine knows.
	others bool
}

func newDirectory(l *identity.Log) *directory {
	d := &directory{Log: l}
	d.refresh()
	d.others = false
	return d
}

// refresh reads the log again after records were added. Most of them are about people and
// voters, and the members stay as they are.
func (d *directory) refresh() {
	d.now, d.root = d.Snapshot(), d.Digest()
	members := d.now.Members()
	list := make([]Machine, len(members))
	for i, m := range members {
		list[i] = Machine{ID: m.ID, Name: m.Name}
	}
	slices.SortFunc(list, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	if d.names != nil && slices.Equal(list, d.list) {
		return
	}
	d.others = true
	d.names, d.ids, d.list = map[crdt.MachineID]string{}, map[string]crdt.MachineID{}, list
	for _, m := range list {
		d.names[m.ID], d.ids[m.Name] = m.Name, m.ID
	}
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
