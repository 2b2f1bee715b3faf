package linux

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// addresses lists the addresses of one link, or of all if link is nil.
func (s *space) addresses(link netlink.Link, names map[int]*netlink.LinkAttrs) ([]netstack.Address, error) {
	list, err := s.nl.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var have []netstack.Address
	for _, a := range list {
		p, ok := prefixOf(a.IPNet)
		if !ok {
			continue
		}
		name := ""
		if l := names[a.LinkIndex]; l != nil {
			name = l.Name
		}
		have = append(have, netstack.Address{Link: name, Prefix: p})
	}
	return have, nil
}

// syncAddresses adds the addresses that are missing and removes those that are ours
// and not wanted. Links must exist in byName.
func (s *space) syncAddresses(have, want []netstack.Address, ours func(netstack.Address) bool, byName map[string]int) error {
	for _, a := range have {
		if !slices.Contains(want, a) && ours(a) {
			if err := s.wrote(s.nl.AddrDel(linkRef(byName[a.Link]), kernelAddr(a)), a); err != nil {
				return err
			}
		}
	}
	for _, a := range want {
		if slices.Contains(have, a) {
			continue
		}
		if err := s.wrote(s.nl.AddrReplace(linkRef(byName[a.Link]), kernelAddr(a)), a); err != nil {
			return err
		}
	}
	return nil
}

// kernelAddr is the address as the kernel is told it. Duplicate address detection
// would keep it unusable for a second or two, and can't find anything: nobody else
// draws from our prefix.
func kernelAddr(a netstack.Address) *netlink.Addr {
	addr := &netlink.Addr{IPNet: ipNet(a.Prefix)}
	if a.Prefix.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

// linkRef names a link by its index alone, which is all that changes of addresses use.
func linkRef(index int) netlink.Link {
	return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}
