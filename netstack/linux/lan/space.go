package lan

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
)

const (
	bridgeName = "lan0"
	eth0       = "eth0"
)

// space is an open network namespace.
type space struct {
	fd int
	nl *netlink.Handle
}

// open opens a namespace of the LAN, and makes it first if there is none.
func (l *LAN) open(part string) (*space, error) {
	fd, _, err := linux.MakeNamespace(l.path(part))
	if err != nil {
		return nil, err
	}
	return newSpace(fd)
}

// newSpace takes over fd, which close closes.
func newSpace(fd int) (*space, error) {
	nl, err := netlink.NewHandleAt(netns.NsHandle(fd), unix.NETLINK_ROUTE)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &space{fd, nl}, nil
}

func (s *space) close() {
	s.nl.Close()
	unix.Close(s.fd)
}

// makeBridge makes the bridge. It hands frames over without showing them to the
// netfilter of its own namespace, and forwards multicast like an unmanaged switch.
func (s *space) makeBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	attrs.Flags = net.FlagUp
	snooping := false
	err := s.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return s.sysctls(map[string]string{
		"net/bridge/bridge-nf-call-iptables":  "0",
		"net/bridge/bridge-nf-call-ip6tables": "0",
		"net/bridge/bridge-nf-call-arptables": "0",
		"net/ipv6/conf/default/disable_ipv6":  "1",
		"net/ipv6/conf/all/disable_ipv6":      "1",
		"net/ipv6/conf/lan0/disable_ipv6":     "1",
	})
}

// sysctls writes settings; those that this kernel lacks (bridge netfilter) are left.
func (s *space) sysctls(values map[string]string) error {
	return linux.Within(s.fd, func() error {
		for key, value := range values {
			err := os.WriteFile("/proc/sys/"+key, []byte(value), 0o644)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("set sysctl: %w", err)
			}
		}
		return nil
	})
}

// addPort joins a machine to the bridge by a pair of links, unless it is joined already.
func (s *space) addPort(name string, machine *space, mac net.HardwareAddr) (fresh bool, err error) {
	have, err := s.nl.LinkByName(name)
	if err == nil {
		if _, err := machine.nl.LinkByName(eth0); err == nil {
			return false, nil
		}
		if err := s.nl.LinkDel(have); err != nil {
			return false, fmt.Errorf("delete a port that leads nowhere: %w", err)
		}
	}
	bridge, err := s.nl.LinkByName(bridgeName)
	if err != nil {
		return false, fmt.Errorf("look up the bridge: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.MasterIndex = bridge.Attrs().Index
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerHardwareAddr = eth0, mac
	veth.PeerNamespace = netlink.NsFd(machine.fd)
	if err := s.nl.LinkAdd(veth); err != nil {
		return false, fmt.Errorf("add a port to the bridge: %w", err)
	}
	return true, s.setPort(name, true)
}

func (s *space) setPort(name string, up bool) error {
	link, err := s.nl.LinkByName(name)
	if err != nil {
		return err
	}
	if up {
		return s.nl.LinkSetUp(link)
	}
	return s.nl.LinkSetDown(link)
}

func (s *space) deletePorts() error {
	links, err := s.nl.LinkList()
	if err != nil {
		return fmt.Errorf("list the ports of the bridge: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Type() == "veth" || l.Type() == "bridge" {
			errs = append(errs, s.nl.LinkDel(l))
		}
	}
	return errors.Join(errs...)
}

// configure gives a machine its addresses. It gets no default route: the LAN leads
// nowhere else.
func (s *space) configure(node Node) error {
	err := s.sysctls(map[string]string{
		"net/ipv6/conf/all/disable_ipv6":  "0",
		"net/ipv6/conf/eth0/disable_ipv6": "0",
		"net/ipv6/conf/eth0/accept_dad":   "0",
		"net/ipv6/conf/eth0/accept_ra":    "0",
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"lo", eth0} {
		if err := s.setPort(name, true); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	link, err := s.nl.LinkByName(eth0)
	if err != nil {
		return fmt.Errorf("look up eth0: %w", err)
	}
	for _, p := range []netip.Prefix{node.IPv6, node.IPv4} {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := s.nl.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("set address %s: %w", p, err)
		}
	}
	return nil
}
