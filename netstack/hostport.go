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
	IPv4 netip.Addr // the pod's IPv4 address; zero: it has none
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

// HostPortLines prints one line per port.
func HostPortLines(list []HostPort) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}
