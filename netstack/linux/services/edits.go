package services

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"

	"starling.dev/starling/netstack/service"
)

// forwardEdit sets one forward: the slots that differ, and its class if that is new.
type forwardEdit struct {
	forward service.Forward
	slots   []uint32
	join    bool
}

func (e forwardEdit) cost() int { return 2*len(e.slots) + 2 }

func (e forwardEdit) write(conn *nftables.Conn, have *content) error {
	f := e.forward
	if err := ensureClass(conn, classOf(f), have); err != nil {
		return err
	}
	for _, n := range e.slots {
		var drop []nftables.SetElement
		if old, ok := have.endpoints[slot{f.Where, n}]; ok {
			drop = []nftables.SetElement{endpointElement(f.Where, old)}
		}
		add := []nftables.SetElement{endpointElement(f.Where, f.Endpoints[n])}
		if err := changeElements(conn, endpointsMap(n), add, drop); err != nil {
			return err
		}
	}
	if !e.join {
		return nil
	}
	return changeElements(conn, classSet(classOf(f)), []nftables.SetElement{{Key: whereKey(f.Where)}}, nil)
}

func (e forwardEdit) note(have *content) {
	f := e.forward
	if e.join {
		have.members[f.Where] = append(have.members[f.Where], classOf(f))
	}
	for _, n := range e.slots {
		have.endpoints[slot{f.Where, n}] = f.Endpoints[n]
	}
}

// leaveEdit takes a port out of a class. One that is in none is refused.
type leaveEdit struct {
	where service.Where
	class class
}

func (leaveEdit) cost() int { return 1 }

func (e leaveEdit) write(conn *nftables.Conn, _ *content) error {
	return changeElements(conn, classSet(e.class), nil, []nftables.SetElement{{Key: whereKey(e.where)}})
}

func (e leaveEdit) note(have *content) {
	left := slices.DeleteFunc(have.members[e.where], func(c class) bool { return c == e.class })
	if len(left) == 0 {
		delete(have.members, e.where)
	} else {
		have.members[e.where] = left
	}
}

// trimEdit removes slots that no class reaches.
type trimEdit struct {
	where    service.Where
	from, to uint32 // to is the first that is not there
}

func (e trimEdit) cost() int { return int(e.to - e.from) }

func (e trimEdit) write(conn *nftables.Conn, have *content) error {
	for n := e.from; n < e.to; n++ {
		drop := []nftables.SetElement{endpointElement(e.where, have.endpoints[slot{e.where, n}])}
		if err := changeElements(conn, endpointsMap(n), nil, drop); err != nil {
			return err
		}
	}
	return nil
}

func (e trimEdit) note(have *content) {
	for n := e.from; n < e.to; n++ {
		delete(have.endpoints, slot{e.where, n})
	}
}

// localEdit changes a set of addresses: of this machine's pods, or of load balancers.
type localEdit struct {
	set       *nftables.Set
	element   func(netip.Addr) nftables.SetElement
	have      map[netip.Addr]struct{}
	add, drop []netip.Addr
}

func (e localEdit) cost() int { return len(e.add) + len(e.drop) }

func (e localEdit) write(conn *nftables.Conn, _ *content) error {
	var add, drop []nftables.SetElement
	for _, a := range e.add {
		add = append(add, e.element(a))
	}
	for _, a := range e.drop {
		drop = append(drop, e.element(a))
	}
	return changeElements(conn, e.set, add, drop)
}

func (e localEdit) note(*content) {
	for _, a := range e.add {
		e.have[a] = struct{}{}
	}
	for _, a := range e.drop {
		delete(e.have, a)
	}
}

func changeElements(conn *nftables.Conn, set *nftables.Set, add, drop []nftables.SetElement) error {
	if len(drop) > 0 {
		if err := conn.SetDeleteElements(set, drop); err != nil {
			return fmt.Errorf("remove elements of %s: %w", set.Name, err)
		}
	}
	if len(add) > 0 {
		if err := conn.SetAddElements(set, add); err != nil {
			return fmt.Errorf("add elements to %s: %w", set.Name, err)
		}
	}
	return nil
}
