package clat

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
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

// openPodLink opens and sets up a pod's link.
func openPodLink(pod Pod, mtu int) (t *tun, err error) {
	err = within(pod.Space, func() error {
		if t, err = openTUN(PodLink); err != nil {
			return err
		}
		return setUpPod(mtu)
	})
	return closeOnError(t, err)
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
		err := os.WriteFile("/proc/sys/"+c.Key, []byte(c.Value), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // no IPv6 here: nothing to set
			return fmt.Errorf("set %q: %w", c, err)
		}
	}
	if err := nl.LinkSetMTU(link, s.mtu); err != nil {
		return fmt.Errorf("set the MTU of link %s to %d: %w", s.name, s.mtu, err)
	}
	for _, a := range s.addresses {
		if err := nl.AddrReplace(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}); err != nil {
			return fmt.Errorf("set address %v on link %s: %w", a, s.name, err)
		}
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set link %s up: %w", s.name, err)
	}
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

// setUpTable replaces our nftables table, which is named after the link, in one
// transaction. It masquerades what comes from pods, and lets nobody else in: neither may
// a pod reach another by its address in the range, nor a stranger open a connection.
func setUpTable(cfg Config) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open an nftables socket: %w", err)
	}
	table := &nftables.Table{Name: "starling-" + cfg.Link, Family: nftables.TableFamilyIPv4}
	conn.AddTable(table)
	conn.DelTable(table) // what is not there can't be deleted, hence the line before
	conn.AddTable(table)
	forward := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	post := conn.AddChain(&nftables.Chain{
		Name: "masquerade", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	in, out := linkIs(expr.MetaKeyIIFNAME, expr.CmpOpEq, cfg.Link), linkIs(expr.MetaKeyOIFNAME, expr.CmpOpEq, cfg.Link)
	drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	for _, r := range []struct {
		chain *nftables.Chain
		exprs [][]expr.Any
	}{
		{forward, [][]expr.Any{in, out, drop}},
		{forward, [][]expr.Any{out, strangers(), drop}},
		{post, [][]expr.Any{from(cfg.IPv4), linkIs(expr.MetaKeyOIFNAME, expr.CmpOpNeq, cfg.Link), {&expr.Masq{}}}},
	} {
		rule := &nftables.Rule{Table: table, Chain: r.chain}
		for _, e := range r.exprs {
			rule.Exprs = append(rule.Exprs, e...)
		}
		conn.AddRule(rule)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set table ip %s: %w", table.Name, err)
	}
	return nil
}

func linkIs(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: padded}}
}

// strangers matches what belongs to no connection that a pod has opened.
func strangers() []expr.Any {
	known := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: known, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

func from(p netip.Prefix) []expr.Any {
	const sourceAt, length = 12, 4
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAt, Len: length},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: length,
			Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, length),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}
