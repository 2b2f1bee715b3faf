package netstack

import "net/netip"

// Machine is what a machine's plan depends on.
type Machine struct {
	Cluster netip.Prefix // the cluster's /48
	Own     netip.Prefix // this machine's /96
	// LAN is the LAN's own /64 in mode lan, where pods have their addresses from, and the
	// machines answer neighbour discovery for them; else zero.
	LAN  netip.Prefix
	IPv4 netip.Prefix // the pods' range behind this machine; zero: none
	// Uplinks are the links to the cluster and to the rest of the world.
	Uplinks []string
	// AcceptRA lists the links, uplinks or not, that take router advertisements only
	// while they don't forward: those that must go on taking them.
	AcceptRA []string
	Peers    []Peer
}

// Peer is a prefix that another machine answers for: its /96, or one pod that moved
// there (/128).
type Peer struct {
	Prefix netip.Prefix
	Via    netip.Addr // the machine's address on the link; zero on a tunnel's
	Link   string
	// Home is the other machine's /96; its link-local next hop is used when Via is
	// IPv4.
	Home netip.Prefix
}

// MachinePlan returns what a machine needs so that its pods reach the cluster and the
// rest of the world. Peers must be sorted by prefix.
//
// Whatever of the cluster has no route is refused (unreachable), so that a packet to
// an address that nobody uses never leaves by the default route and never loops.
func MachinePlan(m Machine) Plan {
	plan := Plan{Table: machineTable(m), Sysctls: machineSysctls(m)}
	plan.Addresses = []Address{{Link: "lo", Prefix: single(MachineAddress(m.Own))}}
	// The addresses of services, and what stands for those of load balancers, are local, so that the machine itself has a way to
	// them; they are replaced by those of pods before that matters, or refused.
	plan.Routes = []Route{
		{Prefix: m.Cluster},
		{Prefix: ServicePrefix(m.Cluster), Link: "lo", Local: true, Source: MachineAddress(m.Own)},
		{Prefix: StandInPrefix, Link: "lo", Local: true, Source: MachineAddress(m.Own)},
	}
	for _, link := range m.Uplinks {
		address := netip.PrefixFrom(LinkLocal(m.Own), 64)
		plan.Addresses = append(plan.Addresses, Address{Link: link, Prefix: address})
	}
	for _, p := range m.Peers {
		plan.Routes = append(plan.Routes, Route{Prefix: p.Prefix, Via: p.nextHop(), Link: p.Link, Source: MachineAddress(m.Own)})
	}
	return plan
}

// nextHop is the peer's address if that is IPv6; IPv6 can't be routed by an IPv4
// address, so the link-local address that the peer derives from its /96 stands in.
func (p Peer) nextHop() netip.Addr {
	if !p.Via.IsValid() {
		return netip.Addr{}
	}
	if p.Via.Is4() || p.Via.Is4In6() {
		return LinkLocal(p.Home)
	}
	return p.Via.WithZone("")
}

// machineSysctls turn forwarding on. A link that takes router advertisements is told
// to go on doing so first: the kernel drops the routes that it learned from them at
// the moment when forwarding begins.
func machineSysctls(m Machine) []Sysctl {
	var s []Sysctl
	for _, link := range m.AcceptRA {
		s = append(s, Sysctl{"net/ipv6/conf/" + link + "/accept_ra", "2"})
	}
	s = append(s, Sysctl{"net/ipv6/conf/all/forwarding", "1"})
	if m.IPv4.IsValid() {
		s = append(s, Sysctl{"net/ipv4/ip_forward", "1"})
	}
	if !m.LAN.IsValid() {
		return s
	}
	// Only with "all" does the kernel answer unicast solicitations, by which neighbours
	// check that an address is still there. It answers others after a random delay of
	// up to 0.8 s unless told not to.
	s = append(s, Sysctl{"net/ipv6/conf/all/proxy_ndp", "1"})
	for _, link := range m.Uplinks {
		s = append(s, Sysctl{"net/ipv6/neigh/" + link + "/proxy_delay", "0"})
	}
	return s
}

const anyPodLink = PodLinkPrefix + "*"

func machineTable(m Machine) *Table {
	forward := []Rule{{
		In:          LinkMatch{anyPodLink, true},
		Out:         LinkMatch{anyPodLink, true},
		Destination: PrefixMatch{Prefix: m.Cluster},
		Direct:      true, // a load balancer sends on what came to its address
		Verdict:     Drop,
		Why:         "never from cluster to cluster",
	}}
	if m.LAN.IsValid() {
		// A packet that came by the LAN for an address of it was not for this machine, or
		// the pod has just left: it must not go back there. (From other links the machine
		// may well forward into its LAN.)
		for _, link := range m.Uplinks {
			forward = append(forward, Rule{
				In: LinkMatch{Name: link}, Out: LinkMatch{Name: link}, Destination: PrefixMatch{Prefix: m.LAN}, Direct: true,
				Verdict: Drop, Why: "never from the LAN to the LAN",
			})
		}
	}
	nat := []Rule{{
		Out: LinkMatch{Name: TranslatorLink}, Verdict: Accept,
		Why: "the NAT64 knows pods by their own addresses",
	}, {
		Out:         LinkMatch{anyPodLink, true},
		Source:      PrefixMatch{Prefix: m.Cluster},
		Destination: PrefixMatch{m.Cluster, true},
		Verdict:     Masquerade,
		Why:         "pods reach IPv6 outside",
	}}
	if m.IPv4.IsValid() {
		forward = append(forward, Rule{
			In: LinkMatch{Name: anyPodLink}, Out: LinkMatch{Name: anyPodLink},
			IPv4: true, Verdict: Drop, Why: "pods reach each other over IPv6 only",
		})
		nat = append(nat, Rule{
			Out: LinkMatch{anyPodLink, true}, Source: PrefixMatch{Prefix: m.IPv4},
			Verdict: Masquerade, Why: "pods reach IPv4 outside",
		})
	}
	return &Table{Chains: []Chain{
		{Name: "forward", Type: "filter", Hook: "forward", Priority: 0, Rules: forward},
		{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: nat},
	}}
}
