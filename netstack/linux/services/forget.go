package services

import (
	"fmt"
	"maps"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Forget makes the kernel forget connections that it sends to pods through services: all
// of them, or those over UDP only, which have no end of their own and would stay with a
// pod that takes no new ones. It returns how many there were. Its cost is that of all
// connections of the machine, so pods are given together.
func (t *Table) Forget(pods []netip.Addr, udpOnly bool) (int, error) {
	if len(pods) == 0 {
		return 0, nil
	}
	h, err := netlink.NewHandleAt(netns.NsHandle(t.fd), unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("open a conntrack socket: %w", err)
	}
	defer h.Close()
	f := forgotten{pods: make(map[netip.Addr]struct{}, len(pods)), prefix: t.cfg.Prefix, udpOnly: udpOnly, external: t.externals()}
	for _, a := range pods {
		f.pods[a] = struct{}{}
	}
	n, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET6, f)
	if err != nil {
		return int(n), fmt.Errorf("forget connections to pods that are gone: %w", err)
	}
	return int(n), nil
}

// forgotten matches connections to an address of the prefix that one of the pods answers.
type forgotten struct {
	pods    map[netip.Addr]struct{}
	prefix  netip.Prefix
	udpOnly bool
	// external are the addresses of load balancers.
	external map[netip.Addr]struct{}
}

func (t *Table) externals() map[netip.Addr]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.have == nil {
		return nil
	}
	return maps.Clone(t.have.external)
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f forgotten) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if f.udpOnly && flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to := address(flow.Forward.DstIP)
	if _, external := f.external[to]; !external && !f.prefix.Contains(to) {
		return false
	}
	_, ok := f.pods[address(flow.Reverse.SrcIP)]
	return ok
}

func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}
