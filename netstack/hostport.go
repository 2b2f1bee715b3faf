package netstack

import (
	"fmt"
	"net/netip"
	"strings"
)

// HostPort is a port of the machine that leads to a pod on it, over TCP and UDP.
type HostPort struct {
	Host uint16     // on the machine
	Pod  netip.Addr // the pod's IPv6 address
	IPv4 netip.Addr // by which IPv4 reaches the pod from here; zero: not at all
	Port uint16     // that the pod listens on
}

// String prints "host port 80 to [fd00::1]:8080 and 10.63.0.7:8080".
func (p HostPort) String() string {
	s := fmt.Sprintf("host port %d to %s", p.Host, netip.AddrPortFrom(p.Pod, p.Port))
	if p.IPv4.IsValid() {
		s += " and " + netip.AddrPortFrom(p.IPv4, p.Port).String()
	}
	return s
}

// Front is a port of a load balancer's IPv4 address that this machine answers for. The NAT64
// knows the address that it leads to as the stand-in of the load balancer's (see StandIn).
type Front struct {
	At       netip.AddrPort
	Protocol string // tcp | udp
	To       netip.Addr
}

// String prints "load balancer 192.0.2.16 . tcp . 80 to 10.62.64.9".
func (f Front) String() string {
	return fmt.Sprintf("load balancer %s . %s . %d to %s", f.At.Addr(), f.Protocol, f.At.Port(), f.To)
}

// Entrances are all ports of the machine that lead elsewhere.
type Entrances struct {
	Ports  []HostPort // each number once
	Fronts []Front    // each address, protocol and port once
}

// String prints one line per port; none if there are none.
func (e Entrances) String() string {
	var b strings.Builder
	for _, p := range e.Ports {
		b.WriteString(p.String() + "\n")
	}
	for _, f := range e.Fronts {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// StandInPrefix holds the IPv6 addresses that stand for IPv4 addresses of load balancers
// inside a machine. They are on no link.
var StandInPrefix = netip.MustParsePrefix("64:ff9b:1:2::/96")

// StandIn is the IPv6 address by which services know an IPv4 address of a load balancer.
func StandIn(a netip.Addr) netip.Addr {
	b, four := StandInPrefix.Addr().As16(), a.As4()
	copy(b[12:], four[:])
	return netip.AddrFrom16(b)
}
