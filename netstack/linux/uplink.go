package linux

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
)

// errNoUplink means that no link of the machine leads anywhere.
var errNoUplink = errors.New("no link of this machine is up beside the loopback: connect it to a network, or name the link to use")

// Uplink returns the link that leads to the rest of the world: the one that was
// configured, or that of the best default route, or the first that is up.
func (n *Network) Uplink() (string, error) {
	links, err := n.host.links()
	if err != nil {
		return "", err
	}
	defaults, err := n.host.defaultRoutes()
	if err != nil {
		return "", err
	}
	up, err := n.uplinks(links, defaults)
	if err != nil {
		return "", err
	}
	return up[0], nil
}

// Underlay returns the MTU that whatever goes to other machines can have on the way: the
// smallest of the uplinks'.
func (n *Network) Underlay() (int, error) {
	links, err := n.host.links()
	if err != nil {
		return 0, err
	}
	defaults, err := n.host.defaultRoutes()
	if err != nil {
		return 0, err
	}
	up, err := n.uplinks(links, defaults)
	if err != nil {
		return 0, err
	}
	return smallestMTU(netstack.Machine{Uplinks: up}, machineState{links: links, byName: indexes(links)}), nil
}

// uplinks returns the links that lead to the rest of the world, the best first.
func (n *Network) uplinks(links map[int]*netlink.LinkAttrs, defaults []netlink.Route) ([]string, error) {
	if name := n.cfg.Uplink; name != "" {
		if _, ok := indexes(links)[name]; !ok {
			return nil, fmt.Errorf("uplink %s: there is no such link; see `ip link`", name)
		}
		return []string{name}, nil
	}
	var up []string
	for _, r := range defaults {
		if l := links[r.LinkIndex]; l != nil && !netstack.IsHostLink(l.Name) && !slices.Contains(up, l.Name) {
			up = append(up, l.Name)
		}
	}
	if len(up) > 0 {
		return up, nil
	}
	for _, i := range slices.Sorted(maps.Keys(links)) {
		l := links[i]
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 && !netstack.IsOurLink(l.Name) {
			return []string{l.Name}, nil
		}
	}
	return nil, errNoUplink
}

// defaultRoutes lists the default routes of both families, IPv6 first, by metric.
func (s *space) defaultRoutes() ([]netlink.Route, error) {
	var routes []netlink.Route
	for _, family := range []int{netlink.FAMILY_V6, netlink.FAMILY_V4} {
		list, err := s.nl.RouteListFiltered(family, &netlink.Route{}, 0)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		list = slices.DeleteFunc(list, func(r netlink.Route) bool {
			ones := 0
			if r.Dst != nil {
				ones, _ = r.Dst.Mask.Size()
			}
			return ones != 0 || r.LinkIndex == 0
		})
		slices.SortStableFunc(list, func(a, b netlink.Route) int { return cmp.Compare(a.Priority, b.Priority) })
		routes = append(routes, list...)
	}
	return routes, nil
}

// AdvertiseAddr returns the source address that the machine uses towards target: the
// address to tell others. (The first interface's would be wrong where a virtual
// machine's first interface is the same NAT everywhere.)
func (n *Network) AdvertiseAddr(target netip.Addr) (source netip.Addr, err error) {
	if target.Zone() != "" {
		link, err := n.host.link(target.Zone())
		if err != nil {
			return netip.Addr{}, err
		}
		if link == nil {
			return netip.Addr{}, fmt.Errorf("find this machine's address towards %s: there is no link %s", target, target.Zone())
		}
		// See openNDP for why by number.
		target = target.WithZone(strconv.Itoa(link.Attrs().Index))
	}
	err = Within(n.host.fd, func() error {
		// Connecting a UDP socket chooses its source address and sends nothing.
		conn, err := net.Dial("udp", netip.AddrPortFrom(target, discardPort).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		source = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		return nil
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find this machine's address towards %s: %w", target, err)
	}
	return source, nil
}

const discardPort = 9
