package services

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"starling.dev/starling/netstack/service"
)

// class says how an endpoint is chosen: among how many, and by what.
type class struct {
	size     uint32
	affinity bool
}

func classOf(f service.Forward) class { return class{uint32(len(f.Endpoints)), f.Affinity} }

// slot is the key of an endpoint.
type slot struct {
	service.Where
	number uint32
}

// content is what the kernel's table holds.
type content struct {
	// members holds the classes that a port is in: one, but for the moment of a change.
	members   map[service.Where][]class
	endpoints map[slot]netip.AddrPort
	classes   []class // in the order of their rules
	numbers   uint32  // how many maps of endpoints there are
	local     map[netip.Addr]struct{}
	external  map[netip.Addr]struct{}
}

func newContent() *content {
	return &content{
		members: map[service.Where][]class{}, endpoints: map[slot]netip.AddrPort{}, local: map[netip.Addr]struct{}{},
		external: map[netip.Addr]struct{}{},
	}
}

// edit is one step of a change: elements of one map that go and that come.
type edit interface {
	cost() int
	write(conn *nftables.Conn, have *content) error
	note(have *content)
}

// cut counts the edits that fit into one transaction, at least one.
func cut(edits []edit) int {
	sum := 0
	for i, e := range edits {
		if sum += e.cost(); sum > chunk && i > 0 {
			return i
		}
	}
	return len(edits)
}

// strangers lists what the kernel forwards and nobody wants.
func (c *content) strangers(want []service.Forward) []service.Where {
	wanted := make(map[service.Where]int, len(want))
	for _, f := range want {
		wanted[f.Where] = len(f.Endpoints)
	}
	found := map[service.Where]struct{}{}
	for w := range c.members {
		if _, ok := wanted[w]; !ok {
			found[w] = struct{}{}
		}
	}
	for s := range c.endpoints {
		if _, ok := wanted[s.Where]; !ok {
			found[s.Where] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// diff finds the edits that make forwards as wanted: first all endpoints and the classes
// that they are reached by are set, then ports leave classes, then endpoints that no class
// reaches any more go. Each is a transaction of its own, since a packet that is under way
// may have seen what is before one: so it never finds a class without its endpoint, nor a
// port that just changes its class in none. A new service takes one transaction.
func (c *content) diff(set []service.Forward, gone []service.Where) []edit {
	var steps [3][]edit
	for _, f := range set {
		now := classOf(f)
		e := forwardEdit{forward: f, join: !slices.Contains(c.members[f.Where], now)}
		for i, to := range f.Endpoints {
			if have, ok := c.endpoints[slot{f.Where, uint32(i)}]; !ok || have != to {
				e.slots = append(e.slots, uint32(i))
			}
		}
		if e.join || len(e.slots) > 0 {
			steps[0] = append(steps[0], e)
		}
		for _, old := range c.members[f.Where] {
			if old != now {
				steps[1] = append(steps[1], leaveEdit{f.Where, old})
			}
		}
		steps[2] = appendTrim(steps[2], c, f.Where, now.size)
	}
	for _, w := range gone {
		for _, old := range c.members[w] {
			steps[1] = append(steps[1], leaveEdit{w, old})
		}
		steps[2] = appendTrim(steps[2], c, w, 0)
	}
	return inTurn(steps[:])
}

// inTurn joins steps, with a barrier between those that have anything to do.
func inTurn(steps [][]edit) (all []edit) {
	for _, s := range steps {
		if len(s) > 0 && len(all) > 0 {
			all = append(all, barrier{})
		}
		all = append(all, s...)
	}
	return all
}

// appendTrim adds the removal of the slots from a number on.
func appendTrim(edits []edit, c *content, w service.Where, from uint32) []edit {
	e := trimEdit{where: w, from: from, to: from}
	for {
		if _, ok := c.endpoints[slot{w, e.to}]; !ok {
			break
		}
		e.to++
	}
	if e.to == e.from {
		return edits
	}
	return append(edits, e)
}

func (c *content) diffLocal(pods []netip.Addr) []edit {
	return diffSet(localEdit{set: hairpinSet(), element: hairpin, have: c.local}, pods)
}

func (c *content) diffExternal(list []netip.Addr) []edit {
	return diffSet(localEdit{set: externalSet(), element: externalElement, have: c.external}, list)
}

func diffSet(e localEdit, want []netip.Addr) []edit {
	wanted := make(map[netip.Addr]struct{}, len(want))
	for _, a := range want {
		wanted[a] = struct{}{}
		if _, ok := e.have[a]; !ok {
			e.add = append(e.add, a)
		}
	}
	for a := range e.have {
		if _, ok := wanted[a]; !ok {
			e.drop = append(e.drop, a)
		}
	}
	if len(e.add)+len(e.drop) == 0 {
		return nil
	}
	return []edit{e}
}

// barrier ends a transaction.
type barrier struct{}

func (barrier) cost() int                            { return chunk + 1 }
func (barrier) write(*nftables.Conn, *content) error { return nil }
func (barrier) note(*content)                        {}
