package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// ourRoutes lists the routes of our protocol in the main table: those through one
// link, or all if index is 0.
func (s *space) ourRoutes(index int, names map[int]*netlink.LinkAttrs) ([]netstack.Route, error) {
	filter := &netlink.Route{Protocol: netstack.RouteProtocol, LinkIndex: index}
	mask := netlink.RT_FILTER_PROTOCOL
	if index != 0 {
		mask |= netlink.RT_FILTER_OIF
	}
	var have []netstack.Route
	for _, family := range []int{netlink.FAMILY_V6, netlink.FAMILY_V4} {
		list, err := s.nl.RouteListFiltered(family, filter, mask)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, r := range list {
			have = append(have, planRoute(family, r, names))
		}
	}
	return have, nil
}

// planRoute is a kernel's route in the words of a plan.
func planRoute(family int, r netlink.Route, names map[int]*netlink.LinkAttrs) netstack.Route {
	var out netstack.Route
	var ok bool
	if out.Prefix, ok = prefixOf(r.Dst); !ok {
		out.Prefix = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		if family == netlink.FAMILY_V4 {
			out.Prefix = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
	}
	if r.Type == unix.RTN_UNREACHABLE {
		return out
	}
	out.Local = r.Type == unix.RTN_LOCAL
	if via, ok := r.Via.(*netlink.Via); ok {
		out.Via, _ = netip.AddrFromSlice(via.Addr)
	} else if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		out.Via = gw.Unmap()
	}
	if l := names[r.LinkIndex]; l != nil {
		out.Link = l.Name
	}
	if src, ok := netip.AddrFromSlice(r.Src); ok && family == netlink.FAMILY_V6 {
		out.Source = src
	}
	return out
}

// kernelRoute is a plan's route as the kernel is told it.
func kernelRoute(r netstack.Route, byName map[string]int) *netlink.Route {
	out := &netlink.Route{
		Dst:       ipNet(r.Prefix),
		Protocol:  netstack.RouteProtocol,
		Table:     unix.RT_TABLE_MAIN,
		LinkIndex: byName[r.Link],
		Src:       r.Source.AsSlice(),
	}
	switch {
	case r.Unreachable():
		out.Type = unix.RTN_UNREACHABLE
	case r.Local:
		out.Type = unix.RTN_LOCAL
	case !r.Via.IsValid():
		out.Scope = netlink.SCOPE_LINK
	case r.Prefix.Addr().Is4() && r.Via.Is6():
		out.Via = &netlink.Via{AddrFamily: unix.AF_INET6, Addr: r.Via.AsSlice()}
	default:
		out.Gw = net.IP(r.Via.AsSlice())
	}
	return out
}

// syncRoutes makes our routes those wanted; have lists the ones there are. A route
// whose next hop changed is replaced, so that there is no moment without it.
// A route that the kernel refuses does not keep the others from being set.
func (s *space) syncRoutes(have, want []netstack.Route, byName map[string]int) error {
	present := make(map[netstack.Route]bool, len(have))
	for _, r := range have {
		present[r] = true
	}
	wanted := make(map[netip.Prefix]bool, len(want))
	var errs []error
	for _, r := range want {
		wanted[r.Prefix] = true
		if !present[r] {
			errs = append(errs, s.wrote(s.nl.RouteReplace(kernelRoute(r, byName)), r))
		}
	}
	for _, r := range have {
		if !wanted[r.Prefix] {
			errs = append(errs, s.deleteRoute(r, byName))
		}
	}
	return errors.Join(errs...)
}

func (s *space) deleteRoute(r netstack.Route, byName map[string]int) error {
	err := s.nl.RouteDel(kernelRoute(r, byName))
	if errors.Is(err, unix.ESRCH) {
		return nil // it went with its link
	}
	return s.wrote(err, r)
}

func indexes(links map[int]*netlink.LinkAttrs) map[string]int {
	byName := make(map[string]int, len(links))
	for i, l := range links {
		byName[l.Name] = i
	}
	return byName
}
