package netstack

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// RouteProtocol marks our routes in the kernel: 'S'. A route with another mark is not
// ours and is never changed.
const RouteProtocol = 83

// Plan is what one network namespace should hold of ours, in the order in which it is
// applied: the table first, so that nothing is forwarded unguarded.
type Plan struct {
	Table     *Table
	Links     []Link
	Sysctls   []Sysctl
	Addresses []Address
	Routes    []Route
	// Neighbours are written last: a link forgets them when it goes down.
	Neighbours []Neighbour
	Proxies    []Proxy
}

// Link is a network interface, which is always up.
type Link struct {
	Name  string
	MTU   int    // 0: as it is
	Alias string // empty: as it is
	MAC   MAC    // zero: as it is
	// Master is the bridge that the link is a port of; empty: as it is.
	Master string
	// Parent is the machine's link that this one is a macvlan of; empty: it is none.
	Parent string
}

// MAC is a link-layer address.
type MAC [6]byte

// String prints "02:00:5e:10:00:00".
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Neighbour is a permanent entry of the neighbour table: nobody is asked for the
// address.
type Neighbour struct {
	Link    string
	Address netip.Addr
	MAC     MAC
}

// Sysctl is a kernel setting below /proc/sys.
type Sysctl struct {
	Key   string // "net/ipv6/conf/all/forwarding"
	Value string
}

// Address is an address on a link. It is usable at once: no duplicate address
// detection is made.
type Address struct {
	Link   string
	Prefix netip.Prefix
}

// Route is a route of ours in the main table.
type Route struct {
	Prefix netip.Prefix
	// Via is the next hop; the zero Addr for a destination on the link. An IPv4 route
	// may have an IPv6 next hop (RFC 8950).
	Via  netip.Addr
	Link string // empty: unreachable
	// Local: the machine takes what is for the prefix as its own.
	Local bool
	// Source is the address that the machine itself sends from; the zero Addr: its
	// own choice.
	Source netip.Addr
}

// Unreachable reports whether the route refuses what matches it.
func (r Route) Unreachable() bool { return r.Link == "" }

// Proxy is an address that the machine answers neighbour discovery for on a link,
// because it forwards to it.
type Proxy struct {
	Link    string
	Address netip.Addr
}

// String prints "proxy 2001:db8::1 dev eth0".
func (p Proxy) String() string { return fmt.Sprintf("proxy %s dev %s", p.Address, p.Link) }

// String prints "link eth0 mtu 1500 up". A link that is part of another is "… master br0 up" or
// "… macvlan of eth1 up".
func (l Link) String() string {
	s := "link " + l.Name
	if l.MTU != 0 {
		s += " mtu " + strconv.Itoa(l.MTU)
	}
	if l.MAC != (MAC{}) {
		s += " mac " + l.MAC.String()
	}
	if l.Alias != "" {
		s += " alias " + l.Alias
	}
	if l.Master != "" {
		s += " master " + l.Master
	}
	if l.Parent != "" {
		s += " macvlan of " + l.Parent
	}
	return s + " up"
}

// String prints "sysctl net.ipv6.conf.all.forwarding=1".
func (s Sysctl) String() string { return "sysctl " + s.Setting() }

// Setting is what sysctl(8) takes: "net.ipv6.conf.all.forwarding=1".
func (s Sysctl) Setting() string { return dotted(s.Key) + "=" + s.Value }

// dotted writes a key as sysctl(8) does: a dot inside a link's name becomes a slash.
func dotted(key string) string {
	return strings.NewReplacer("/", ".", ".", "/").Replace(key)
}

// String prints "address fd00::1/128 dev lo".
func (a Address) String() string {
	return fmt.Sprintf("address %s dev %s", a.Prefix, a.Link)
}

// String prints "route fd00::/96 via fe80::1 dev eth0".
func (r Route) String() string {
	if r.Unreachable() {
		return "route unreachable " + r.Prefix.String()
	}
	s := "route " + r.Prefix.String()
	if r.Local {
		s = "route local " + r.Prefix.String()
	}
	switch {
	case !r.Via.IsValid():
	case r.Via.Is6() && r.Prefix.Addr().Is4():
		s += " via inet6 " + r.Via.String()
	default:
		s += " via " + r.Via.String()
	}
	s += " dev " + r.Link
	if r.Source.IsValid() {
		s += " src " + r.Source.String()
	}
	return s
}

// String prints "neighbour fe80::1 mac 02:00:5e:10:00:00 dev eth0".
func (n Neighbour) String() string {
	return fmt.Sprintf("neighbour %s mac %s dev %s", n.Address, n.MAC, n.Link)
}

// Lines returns one line per thing.
func (p Plan) Lines() []string {
	var lines []string
	if p.Table != nil {
		lines = p.Table.lines()
	}
	lines = appendLines(lines, p.Links)
	lines = appendLines(lines, p.Sysctls)
	lines = appendLines(lines, p.Addresses)
	lines = appendLines(lines, p.Routes)
	lines = appendLines(lines, p.Neighbours)
	return appendLines(lines, p.Proxies)
}

func appendLines[T fmt.Stringer](lines []string, things []T) []string {
	for _, t := range things {
		lines = append(lines, t.String())
	}
	return lines
}

// String prints the plan, one line per thing.
func (p Plan) String() string {
	return strings.Join(p.Lines(), "\n") + "\n"
}
