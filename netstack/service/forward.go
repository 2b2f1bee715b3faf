package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"starling.dev/starling/netstack"
)

// Where is what a packet to a service is known by.
type Where struct {
	Address  netip.Addr
	Protocol string
	Port     uint16
}

// String prints "fd00::1 . tcp . 80", as nft(8) does.
func (w Where) String() string { return fmt.Sprintf("%s . %s . %d", w.Address, w.Protocol, w.Port) }

// Forward is what a machine does with packets to one port of a service: it sends each
// connection to one of the endpoints.
type Forward struct {
	Where
	// Affinity: the endpoint follows from the client's address.
	Affinity  bool
	Endpoints []netip.AddrPort // at least one
}

// Forwards returns the service's part of the machine's table. A port that no pod stands
// behind is left out: clients are refused at once.
func (s Service) Forwards() []Forward {
	if len(s.Endpoints) == 0 {
		return nil
	}
	var list []Forward
	for _, a := range append([]netip.Addr{s.Address}, s.External...) {
		if !a.IsValid() {
			continue
		}
		if a.Is4() {
			a = netstack.StandIn(a)
		}
		for i, port := range s.Ports {
			f := Forward{Where: Where{a, port.Protocol, port.Port}, Affinity: s.Affinity}
			f.Endpoints = s.Targets(i)
			list = append(list, f)
		}
	}
	return list
}

// Targets are where the endpoints take connections for the i-th port.
func (s Service) Targets(i int) (list []netip.AddrPort) {
	for _, e := range s.Endpoints {
		list = append(list, netip.AddrPortFrom(e.Address, e.Ports[i]))
	}
	return list
}

// String prints what happens to a connection, much as nft(8) would.
func (f Forward) String() string {
	choose := "numgen random"
	if f.Affinity {
		choose = "jhash ip6 saddr"
	}
	var to []string
	for i, e := range f.Endpoints {
		to = append(to, fmt.Sprintf("%d : %s . %d", i, e.Addr(), e.Port()))
	}
	return fmt.Sprintf("%s : dnat ip6 to %s mod %d map { %s }", f.Where, choose, len(f.Endpoints), strings.Join(to, ", "))
}

// Equal reports whether two forwards are the same.
func (f Forward) Equal(o Forward) bool {
	return f.Where == o.Where && f.Affinity == o.Affinity && slices.Equal(f.Endpoints, o.Endpoints)
}

// Changes compares what a machine did for a service before with what it is to do now.
func (d Difference) Changes() (set []Forward, gone []Where) {
	set = d.After.Forwards()
	for _, old := range d.Before.Forwards() {
		if !slices.ContainsFunc(set, func(f Forward) bool { return f.Where == old.Where }) {
			gone = append(gone, old.Where)
		}
	}
	return set, gone
}
