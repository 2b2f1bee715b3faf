package linux

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
)

// ends is one end of a pod's link with the plan of the namespace that it is in.
type ends struct {
	space *space
	plan  netstack.Plan
	link  netlink.Link
	fresh bool // just made: it has nothing yet that would have to be compared
}

func (e ends) apply() error {
	want := e.plan.Links[len(e.plan.Links)-1]
	if err := e.space.setLink(e.link, want); err != nil {
		return err
	}
	if err := e.space.setSysctls(e.plan.Sysctls); err != nil {
		return err
	}
	if err := e.setUp(); err != nil {
		return err
	}
	index := e.link.Attrs().Index
	names := map[int]*netlink.LinkAttrs{index: e.link.Attrs()}
	byName := map[string]int{want.Name: index}
	if err := e.syncAddresses(names, byName); err != nil {
		return err
	}
	var have []netstack.Route
	var err error
	if !e.fresh {
		if have, err = e.space.ourRoutes(index, names); err != nil {
			return err
		}
	}
	if err := e.space.syncRoutes(have, e.plan.Routes, byName); err != nil {
		return err
	}
	return e.syncNeighbours()
}

func (e ends) setUp() error {
	for _, want := range e.plan.Links {
		have := e.link
		if want.Name != have.Attrs().Name {
			var err error
			if have, err = e.space.link(want.Name); err != nil {
				return err
			}
			if have == nil {
				return fmt.Errorf("there is no link %s", want.Name)
			}
		}
		if err := e.space.setUp(have, want); err != nil {
			return err
		}
	}
	return nil
}

func (e ends) syncAddresses(names map[int]*netlink.LinkAttrs, byName map[string]int) error {
	var have []netstack.Address
	var err error
	if !e.fresh {
		if have, err = e.space.addresses(e.link, names); err != nil {
			return err
		}
	}
	// All that a pod's link may have beside the plan is the link-local address that the
	// kernel gives it.
	ours := func(a netstack.Address) bool { return !a.Prefix.Addr().IsLinkLocalUnicast() }
	return e.space.syncAddresses(have, e.plan.Addresses, ours, byName)
}

// chooseIPv4Locked returns the pod's IPv4 address, the one that it has if it has one.
func (n *Network) chooseIPv4Locked(podID string) (netip.Addr, error) {
	if err := n.readIPv4Locked(); err != nil {
		return netip.Addr{}, err
	}
	if a, ok := n.ipv4[podID]; ok {
		return a, nil
	}
	used := make(map[netip.Addr]bool, len(n.ipv4))
	for _, a := range n.ipv4 {
		used[a] = true
	}
	a := netstack.PickIPv4(n.cfg.IPv4, podID, func(a netip.Addr) bool { return used[a] })
	if !a.IsValid() {
		return a, fmt.Errorf("no IPv4 address is free in %s: use a larger range, or ipv4: none", n.cfg.IPv4)
	}
	n.ipv4[podID] = a
	return a, nil
}

// PodIPv4 returns the address that a pod has behind this machine; the zero Addr if it
// has none.
func (n *Network) PodIPv4(podID string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.readIPv4Locked(); err != nil {
		return netip.Addr{}
	}
	return n.ipv4[podID]
}

func (n *Network) releaseIPv4Locked(podID string) error {
	if err := n.readIPv4Locked(); err != nil {
		return err
	}
	delete(n.ipv4, podID)
	return nil
}

// readIPv4Locked learns once, from the routes of an earlier run, which pod has which
// address.
func (n *Network) readIPv4Locked() error {
	if n.ipv4 != nil {
		return nil
	}
	links, err := n.host.links()
	if err != nil {
		return err
	}
	routes, err := n.host.ourRoutes(0, links)
	if err != nil {
		return err
	}
	pods := map[string]string{} // by link
	for _, l := range links {
		if id, ok := netstack.PodOfName(n.cfg.Scope, l.Alias); ok {
			pods[l.Name] = id
		}
	}
	n.ipv4 = map[string]netip.Addr{}
	for _, r := range routes {
		if id, ok := pods[r.Link]; ok && r.Prefix.Addr().Is4() {
			n.ipv4[id] = r.Prefix.Addr()
		}
	}
	return nil
}
