package clat

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// This file puts into the kernel what the links need. All of it is idempotent, and
// touches nothing but our own links, routes and table.

// within runs f in the network namespace at path, or in the process's own.
func within(path string, f func() error) error {
	if path == "" {
		return f()
	}
	fd, err := linux.OpenNamespace(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// openPodLink opens and sets up a pod's link. carries is the MTU of its Ethernet link.
func openPodLink(pod Pod, mtu int) (t *tun, carries int, err error) {
	err = within(pod.Space, func() error {
		carries = ethernetMTU(mtu)
		if t, err = openTUN(PodLink); err != nil {
			return err
		}
		return setUpPod(mtu)
	})
	t, err = closeOnError(t, err)
	return t, carries, err
}

// ethernetMTU is what the Ethernet link of the pod whose namespace the calling thread is
// in carries: at most mtu, and that if there is no such link.
func ethernetMTU(mtu int) int {
	link, err := netlink.LinkByName(netstack.PodLink)
	if err != nil {
		return mtu
	}
	return max(minMTU, min(mtu, link.Attrs().MTU))
}

// setUpPod gives a pod's link its address and route, and the MTU that makes packets fit
// into IPv6 behind it.
func setUpPod(mtu int) error {
	return setUpLink(linkState{
		name:      PodLink,
		mtu:       mtu - shrink,
		sysctls:   []netstack.Sysctl{{Key: "net/ipv6/conf/" + PodLink + "/disable_ipv6", Value: "1"}},
		addresses: []netip.Addr{PodAddress},
		routes:    []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	})
}

// openMachineLink opens and sets up the machine's link.
func openMachineLink(cfg Config) (t *tun, err error) {
	err = within(cfg.Machine, func() error {
		if t, err = openTUN(cfg.Link); err != nil {
			return err
		}
		return setUpMachine(cfg)
	})
	return closeOnError(t, err)
}

// setUpMachine routes the NAT64 prefix and the pods' IPv4 range to the machine's link.
// The address is for the kernel to send its own ICMP errors from. The table comes first,
// so that nothing is forwarded unguarded.
func setUpMachine(cfg Config) error {
	if err := setUpTable(cfg); err != nil {
		return err
	}
	return setUpLink(linkState{
		name: cfg.Link,
		mtu:  cfg.MTU,
		sysctls: []netstack.Sysctl{
			{Key: "net/ipv6/conf/" + cfg.Link + "/disable_ipv6", Value: "0"},
			{Key: "net/ipv6/conf/" + cfg.Link + "/accept_ra", Value: "0"},
			{Key: "net/ipv6/conf/" + cfg.Link + "/addr_gen_mode", Value: "1"}, // no link-local chatter
			{Key: "net/ipv4/ip_forward", Value: "1"},
		},
		addresses: []netip.Addr{cfg.own()},
		routes:    []netip.Prefix{cfg.Prefix, cfg.IPv4},
	})
}

func closeOnError(t *tun, err error) (*tun, error) {
	if err != nil && t != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, err
}

// linkState is what a link of ours should be.
type linkState struct {
	name      string
	mtu       int
	sysctls   []netstack.Sysctl
	addresses []netip.Addr
	routes    []netip.Prefix
}

// setUpLink configures a link in the calling thread's namespace.
func setUpLink(s linkState) error {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(s.name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", s.name, err)
	}
	for _, c := range s.sysctls {
		if err := setSysctl(c); err != nil {
			return err
		}
	}
	if link.Attrs().MTU != s.mtu {
		if err := nl.LinkSetMTU(link, s.mtu); err != nil {
			return fmt.Errorf("set the MTU of link %s to %d: %w", s.name, s.mtu, err)
		}
	}
	if err := s.setAddresses(nl, link); err != nil {
		return err
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := nl.LinkSetUp(link); err != nil {
			return fmt.Errorf("set link %s up: %w", s.name, err)
		}
	}
	return s.setRoutes(nl, link)
}

// setSysctl writes a setting that differs.
func setSysctl(c netstack.Sysctl) error {
	path := "/proc/sys/" + c.Key
	have, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || strings.TrimSpace(string(have)) == c.Value {
		return nil // no IPv6 here: nothing to set
	}
	if err := os.WriteFile(path, []byte(c.Value), 0o644); err != nil {
		return fmt.Errorf("set %q: %w", c, err)
	}
	return nil
}

// setAddresses adds what is missing: an address that is set again would be reported as
// a change, and answered with another repair.
func (s linkState) setAddresses(nl *netlink.Handle, link netlink.Link) error {
	have, err := nl.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list the addresses of link %s: %w", s.name, err)
	}
	for _, a := range s.addresses {
		if slices.ContainsFunc(have, func(h netlink.Addr) bool { return h.IP.Equal(a.AsSlice()) }) {
			continue
		}
		if err := nl.AddrReplace(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}); err != nil {
			return fmt.Errorf("set address %v on link %s: %w", a, s.name, err)
		}
	}
	return nil
}

func (s linkState) setRoutes(nl *netlink.Handle, link netlink.Link) error {
	for _, r := range s.routes {
		if err := nl.RouteReplace(route(link, r)); err != nil {
			return fmt.Errorf("route %v to link %s: %w", r, s.name, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func route(link netlink.Link, p netip.Prefix) *netlink.Route {
	return &netlink.Route{
		LinkIndex: link.Attrs().Index,
		Dst:       ipNet(p),
		Protocol:  netstack.RouteProtocol,
		Scope:     netlink.SCOPE_LINK,
	}
}

// Purge takes away what a Device with this configuration leaves on the machine.
func Purge(cfg Config) error {
	cfg = cfg.withDefaults()
	err := within(cfg.Machine, func() error { return errors.Join(deleteLink(cfg.Link), deleteTable(cfg)) })
	if err != nil {
		return fmt.Errorf("purge NAT64: %w", err)
	}
	return nil
}

// deleteLink deletes a link in the calling thread's namespace, if it is there.
func deleteLink(name string) error {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = nl.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}
