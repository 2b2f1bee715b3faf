package netstack

import (
	"net/netip"
	"strings"
)

// Pod is what a pod's plan depends on.
type Pod struct {
	ID      string
	Scope   string     // the peer's; see SpaceName
	Address netip.Addr // the pod's one IPv6 address
	IPv4    netip.Addr // masqueraded on the machine; the zero Addr: none
	MTU     int        // the uplink's
	// ProxyOn lists the links on which the machine answers for the pod's address: the
	// uplinks in mode lan, else none.
	ProxyOn []string
	// Interfaces are the pod's further links, by name.
	Interfaces []Interface
}

// PodState is the desired state of a pod's network: a namespace of its own, joined to
// the machine by a pair of links.
type PodState struct {
	Space  string // name of the pod's network namespace
	Inside Plan   // of the pod's namespace
	// Outside is what the machine's namespace holds for this pod: Outside.Links[0] is
	// the other end of the pod's eth0.
	Outside Plan
	// Interfaces are the pod's further links.
	Interfaces []InterfaceState
}

// PodPlan returns a pod's plan. The pod sees a /128 and one next hop, fe80::1, for
// both families: there is no subnet, no bridge and no broadcast that it shares with
// other pods, and the machine routes each pod by one host route.
//
// Both ends know each other's link-layer address from the start. Neighbour discovery
// would work too, but not at once: the kernel joins the multicast group that it
// listens on by a deferred job, and a first solicitation that comes too early is
// repeated only after a second.
func PodPlan(p Pod) PodState {
	host := HostLink(p.Scope, p.ID)
	hostMAC, podMAC := linkMACs(p.Scope, p.ID)
	space := SpaceName(p.Scope, p.ID)
	state := PodState{
		Space: space,
		Inside: Plan{
			Links:      []Link{{Name: "lo"}, {Name: PodLink, MTU: p.MTU, MAC: podMAC}},
			Sysctls:    insideSysctls(),
			Addresses:  []Address{{Link: PodLink, Prefix: single(p.Address)}},
			Routes:     []Route{{Prefix: anyIPv6, Via: Gateway, Link: PodLink}},
			Neighbours: []Neighbour{{PodLink, Gateway, hostMAC}},
		},
		Outside: Plan{
			Links:      []Link{{Name: host, MTU: p.MTU, Alias: space, MAC: hostMAC}},
			Sysctls:    outsideSysctls(host),
			Addresses:  []Address{{Link: host, Prefix: netip.PrefixFrom(Gateway, 64)}},
			Routes:     []Route{{Prefix: single(p.Address), Link: host}},
			Neighbours: []Neighbour{{host, p.Address, podMAC}},
		},
	}
	for _, link := range p.ProxyOn {
		state.Outside.Proxies = append(state.Outside.Proxies, Proxy{link, p.Address})
	}
	if p.IPv4.IsValid() {
		in, out := &state.Inside, &state.Outside
		in.Addresses = append(in.Addresses, Address{Link: PodLink, Prefix: single(p.IPv4)})
		in.Routes = append(in.Routes, Route{Prefix: anyIPv4, Via: Gateway, Link: PodLink})
		out.Routes = append(out.Routes, Route{Prefix: single(p.IPv4), Link: host})
		out.Neighbours = append(out.Neighbours, Neighbour{host, p.IPv4, podMAC})
	}
	for _, i := range p.Interfaces {
		state.Interfaces = append(state.Interfaces, interfacePlan(p, i))
	}
	return state
}

var (
	anyIPv6 = netip.MustParsePrefix("::/0")
	anyIPv4 = netip.MustParsePrefix("0.0.0.0/0")
)

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// insideSysctls make IPv6 work at once in a new namespace, whatever the kernel's
// command line says, and let nobody but the plan configure the pod's link.
func insideSysctls() []Sysctl {
	return []Sysctl{
		{"net/ipv6/conf/all/disable_ipv6", "0"},
		{"net/ipv6/conf/default/disable_ipv6", "0"},
		{"net/ipv6/conf/" + PodLink + "/disable_ipv6", "0"},
		{"net/ipv6/conf/" + PodLink + "/accept_dad", "0"},
		{"net/ipv6/conf/" + PodLink + "/accept_ra", "0"},
		{"net/ipv4/ping_group_range", "0\t2147483647"},
		{"net/ipv4/ip_unprivileged_port_start", "0"},
	}
}

// outsideSysctls keep the machine from learning anything from a pod.
func outsideSysctls(host string) []Sysctl {
	return []Sysctl{
		{"net/ipv6/conf/" + host + "/disable_ipv6", "0"},
		{"net/ipv6/conf/" + host + "/accept_dad", "0"},
		{"net/ipv6/conf/" + host + "/accept_ra", "0"},
		{"net/ipv4/conf/" + host + "/accept_redirects", "0"},
		{"net/ipv6/conf/" + host + "/accept_redirects", "0"},
	}
}

// String prints all plans.
func (s PodState) String() string {
	lines := append([]string{"namespace " + s.Space}, indent(s.Inside.Lines())...)
	lines = append(lines, "machine")
	lines = append(lines, indent(s.Outside.Lines())...)
	lines = append(lines, s.interfaceLines()...)
	return strings.Join(lines, "\n") + "\n"
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = "  " + l
	}
	return out
}
