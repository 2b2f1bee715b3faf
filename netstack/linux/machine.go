package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
)

// machineState is what is known of the machine before its plan is applied.
type machineState struct {
	links     map[int]*netlink.LinkAttrs
	byName    map[string]int
	addresses []netstack.Address
	routes    []netstack.Route            // ours, but for those of pods
	pods      map[string][]netstack.Route // those of pods here, by link
	defaults  []netlink.Route
}

func (n *Network) observe() (machineState, error) {
	var m machineState
	var err error
	if m.links, err = n.host.links(); err != nil {
		return m, err
	}
	m.byName = indexes(m.links)
	if m.addresses, err = n.host.addresses(nil, m.links); err != nil {
		return m, err
	}
	if m.defaults, err = n.host.defaultRoutes(); err != nil {
		return m, err
	}
	all, err := n.host.ourRoutes(0, m.links)
	m.pods = map[string][]netstack.Route{}
	for _, r := range all {
		switch {
		case netstack.IsHostLink(r.Link):
			m.pods[r.Link] = append(m.pods[r.Link], r)
		case r.Link != netstack.TranslatorLink: // the NAT64 keeps its own routes
			m.routes = append(m.routes, r)
		}
	}
	return m, err
}

// local returns the addresses of the pods that are attached here.
func (m machineState) local() map[netip.Prefix]bool {
	local := map[netip.Prefix]bool{}
	for _, routes := range m.pods {
		for _, r := range routes {
			local[r.Prefix] = true
		}
	}
	return local
}

// applyMachineLocked makes the kernel agree with the machine's plan. It sets what it
// can, and its error names what it could not.
func (n *Network) applyMachineLocked(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	state, err := n.observe()
	if err != nil {
		return err
	}
	machine, unreached, err := n.planMachineLocked(state)
	if err != nil {
		return err
	}
	plan := netstack.MachinePlan(machine)
	if n.plan == nil {
		plan.Routes = keepRoutes(plan.Routes, state.routes)
	}
	before := n.writes.Load()
	if err := n.applyMachinePlan(plan, state); err != nil {
		return err
	}
	// From here on pods may be attached, even if some machine can't be routed to.
	n.mtu, n.links = smallestMTU(machine, state), machine.Uplinks
	err = n.host.syncRoutes(state.routes, plan.Routes, state.byName)
	if n.writes.Load() != before {
		err = errors.Join(err, n.checkDefaults(state.defaults))
	}
	return errors.Join(unreached, err)
}

// applyMachinePlan sets all of the plan but its routes.
func (n *Network) applyMachinePlan(plan netstack.Plan, state machineState) error {
	if err := n.host.syncTable(plan.Table); err != nil {
		return err
	}
	if err := n.host.setSysctls(plan.Sysctls); err != nil {
		return err
	}
	if err := n.host.setLoopbackUp(); err != nil {
		return err
	}
	return n.host.syncAddresses(state.addresses, plan.Addresses, n.oursOnMachine, state.byName)
}

func (s *space) setLoopbackUp() error {
	lo, err := s.link("lo")
	if err != nil {
		return err
	}
	return s.setUp(lo, netstack.Link{Name: "lo"})
}

// oursOnMachine reports whether an address of the machine was set by us. Pods' links
// are set up by their own plans.
func (n *Network) oursOnMachine(a netstack.Address) bool {
	if netstack.IsHostLink(a.Link) {
		return false
	}
	return a.Prefix.Addr() == netstack.LinkLocal(n.cfg.Own) ||
		(a.Link == "lo" && a.Prefix.IsSingleIP() && n.cfg.Cluster.Contains(a.Prefix.Addr()))
}

// keepRoutes adds to the wanted routes those of an earlier run.
func keepRoutes(want, have []netstack.Route) []netstack.Route {
	for _, r := range have {
		if !slices.ContainsFunc(want, func(w netstack.Route) bool { return w.Prefix == r.Prefix }) {
			want = append(want, r)
		}
	}
	return want
}

// planMachineLocked gathers what the machine's plan depends on. Machines that no link leads
// to are named in the first error.
func (n *Network) planMachineLocked(state machineState) (m netstack.Machine, unreached, err error) {
	m = netstack.Machine{Cluster: n.cfg.Cluster, Own: n.cfg.Own, IPv4: n.cfg.IPv4}
	if m.Uplinks, err = n.uplinks(state.links, state.defaults); err != nil && !errors.Is(err, errNoUplink) {
		return m, nil, err
	}
	if n.cfg.Mode == Lan {
		if m.LAN, err = n.LANPrefix(); err != nil {
			return m, nil, err
		}
	}
	if n.plan != nil {
		m.Peers, unreached = findPeers(*n.plan, state, m.Uplinks)
	}
	for _, p := range m.Peers {
		if !slices.Contains(m.Uplinks, p.Link) {
			m.Uplinks = append(m.Uplinks, p.Link)
		}
	}
	m.AcceptRA = n.acceptRA(state.links, m.Uplinks)
	return m, unreached, nil
}

// findPeers finds for each route of the plan the link that its machine is on.
// Addresses of pods that are attached here are left out: they are here.
func findPeers(plan loops.RoutePlan, state machineState, uplinks []string) ([]netstack.Peer, error) {
	homes := map[string]netip.Prefix{}
	for _, r := range plan.Routes {
		if r.Prefix.Bits() == netstack.MachineBits {
			homes[r.Machine] = r.Prefix
		}
	}
	var peers []netstack.Peer
	var errs []error
	local := state.local()
	for _, r := range plan.Routes {
		if local[r.Prefix] || r.Prefix == plan.Own {
			continue
		}
		if _, up := state.byName[netstack.TunnelLink]; r.Tunnel && up {
			peers = append(peers, netstack.Peer{Prefix: r.Prefix, Link: netstack.TunnelLink, Home: homes[r.Machine]})
			continue
		} else if r.Tunnel {
			errs = append(errs, fmt.Errorf("route %s: the WireGuard device %s to machine %s is gone", r.Prefix, netstack.TunnelLink, r.Machine))
			continue
		}
		link := onLink(r.Via, state, uplinks)
		home := homes[r.Machine]
		if link == "" || (!r.Via.Is6() && !home.IsValid()) {
			errs = append(errs, fmt.Errorf("route %s: machine %s at %s is on no link of this machine: connect both to one network", r.Prefix, r.Machine, r.Via))
			continue
		}
		peers = append(peers, netstack.Peer{Prefix: r.Prefix, Via: r.Via.Unmap(), Link: link, Home: home})
	}
	return peers, errors.Join(errs...)
}

// onLink returns the link that an address is directly reached by: the one that its
// zone names, or the first uplink for a link-local address, or the one with the
// longest prefix that contains it.
func onLink(via netip.Addr, state machineState, uplinks []string) string {
	via = via.Unmap()
	if via.IsLinkLocalUnicast() && via.Is6() {
		if _, ok := state.byName[via.Zone()]; ok {
			return via.Zone()
		}
		if len(uplinks) > 0 {
			return uplinks[0]
		}
		return ""
	}
	link, bits := "", -1
	for _, a := range state.addresses {
		if a.Link != "lo" && a.Prefix.Bits() > bits && a.Prefix.Contains(via) {
			link, bits = a.Link, a.Prefix.Bits()
		}
	}
	return link
}

// acceptRA lists the links that stop taking router advertisements if nothing is done:
// all that take them now, and, once the machine forwards, the uplinks.
func (n *Network) acceptRA(links map[int]*netlink.LinkAttrs, uplinks []string) []string {
	const forwarding = "net/ipv6/conf/all/forwarding"
	keys := []string{forwarding}
	key := func(link string) string { return "net/ipv6/conf/" + link + "/accept_ra" }
	for _, l := range links {
		keys = append(keys, key(l.Name))
	}
	now := n.host.sysctls(keys)
	var keep []string
	for _, l := range links {
		if l.Flags&net.FlagLoopback != 0 || netstack.IsOurLink(l.Name) {
			continue
		}
		if now[key(l.Name)] == "1" && (now[forwarding] == "0" || slices.Contains(uplinks, l.Name)) {
			keep = append(keep, l.Name)
		}
	}
	slices.Sort(keep)
	return keep
}

// defaultMTU is used while no link leads anywhere.
const defaultMTU = 1500

func smallestMTU(m netstack.Machine, state machineState) int {
	mtu := 0
	for _, name := range m.Uplinks {
		if l := state.links[state.byName[name]]; mtu == 0 || l.MTU < mtu {
			mtu = l.MTU
		}
	}
	if mtu == 0 {
		return defaultMTU
	}
	return mtu
}

// checkDefaults reports a default route that the machine had before and lacks now.
func (n *Network) checkDefaults(before []netlink.Route) error {
	after, err := n.host.defaultRoutes()
	if err != nil {
		return err
	}
	for _, b := range before {
		kept := slices.ContainsFunc(after, func(a netlink.Route) bool {
			return a.Family == b.Family && a.LinkIndex == b.LinkIndex
		})
		if !kept {
			return fmt.Errorf("the default route by %s was lost when forwarding was turned on: set sysctl accept_ra=2 on that link, and renew it", b.Gw)
		}
	}
	return nil
}
