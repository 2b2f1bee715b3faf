package linux

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// syncNeighbours makes the permanent neighbours of a pod's link those of the plan.
func (e ends) syncNeighbours() error {
	a := e.link.Attrs()
	var have []netstack.Neighbour
	var err error
	if !e.fresh {
		if have, err = e.space.neighbours(a.Index, a.Name); err != nil {
			return err
		}
	}
	for _, n := range have {
		if !slices.Contains(e.plan.Neighbours, n) {
			if err := e.space.wrote(e.space.nl.NeighDel(kernelNeighbour(n, a.Index)), n); err != nil {
				return err
			}
		}
	}
	for _, n := range e.plan.Neighbours {
		if slices.Contains(have, n) {
			continue
		}
		if err := e.space.wrote(e.space.nl.NeighSet(kernelNeighbour(n, a.Index)), n); err != nil {
			return err
		}
	}
	return nil
}

// neighbours lists the permanent neighbours of one link. It opens a socket without
// strict checks: those also refuse what happens to stand in the padding of the
// library's request.
func (s *space) neighbours(index int, link string) ([]netstack.Neighbour, error) {
	nl, err := netlink.NewHandleAt(netns.NsHandle(s.fd), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer nl.Close()
	list, err := nl.NeighList(index, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	var have []netstack.Neighbour
	for _, n := range list {
		a, ok := netip.AddrFromSlice(n.IP)
		if !ok || n.State != netlink.NUD_PERMANENT || len(n.HardwareAddr) != 6 {
			continue
		}
		have = append(have, netstack.Neighbour{Link: link, Address: a.Unmap(), MAC: netstack.MAC(n.HardwareAddr)})
	}
	return have, nil
}

func kernelNeighbour(n netstack.Neighbour, index int) *netlink.Neigh {
	family := netlink.FAMILY_V6
	if n.Address.Is4() {
		family = netlink.FAMILY_V4
	}
	return &netlink.Neigh{
		LinkIndex: index, Family: family, State: netlink.NUD_PERMANENT,
		IP: n.Address.AsSlice(), HardwareAddr: n.MAC[:],
	}
}

// proxies lists the addresses that the machine answers for.
func (s *space) proxies() (map[netstack.Proxy]bool, error) {
	nl, err := netlink.NewHandleAt(netns.NsHandle(s.fd), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	defer nl.Close()
	list, err := nl.NeighProxyList(0, netlink.FAMILY_V6)
	if err != nil {
		return nil, fmt.Errorf("list neighbour proxies: %w", err)
	}
	links, err := s.links()
	if err != nil {
		return nil, err
	}
	have := make(map[netstack.Proxy]bool, len(list))
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok && links[n.LinkIndex] != nil {
			have[netstack.Proxy{Link: links[n.LinkIndex].Name, Address: a}] = true
		}
	}
	return have, nil
}
