package netstack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// Interface is a further link of a pod: into a network that its machine is on, beside the
// pod's way into the cluster, which stays as it is.
type Interface struct {
	Name   string // of the link in the pod
	Attach string // the machine's link
	// Bridge: Attach is a bridge, and the pod's link one more port of it. Else the pod's
	// link is a macvlan of Attach, with a link-layer address of its own there.
	Bridge    bool
	MTU       int // 0: that of Attach
	AttachMTU int
	Addresses []netip.Prefix
	Routes    []Route // by this link; Route.Link is not read
}

// InterfaceState is the desired state of one further link.
type InterfaceState struct {
	Inside Plan // of the pod's namespace; Inside.Links[0] is the link
	// Outside is what the machine's namespace holds for it: Outside.Links[0] is the bridge's
	// port. It is empty for a macvlan, which is in the pod's namespace alone.
	Outside Plan
}

// interfacePlan returns a further link's plan. Its link-layer address follows from the
// pod's ID and the link's name, so that a pod keeps it when it moves. Nobody but the plan
// configures the link: a router's advertisements on it would give the pod a second way to
// everywhere.
func interfacePlan(p Pod, i Interface) InterfaceState {
	alias := InterfaceAlias(p.Scope, p.ID, i.Name)
	sum := sha256.Sum256([]byte(alias))
	var mac, portMAC MAC
	copy(mac[:], sum[:6])
	copy(portMAC[:], sum[6:12])
	mac[0], portMAC[0] = mac[0]&^1|2, portMAC[0]&^1|2
	link := Link{Name: i.Name, MTU: cmp.Or(i.MTU, i.AttachMTU), Alias: alias, MAC: mac}
	var outside Plan
	if i.Bridge {
		port := interfaceLinkPrefix + hex.EncodeToString(sum[12:18])
		// The port is a part of the bridge, and no address of the machine. It has the bridge's
		// MTU, since a bridge takes the smallest of its ports'.
		outside = Plan{
			Links:   []Link{{Name: port, MTU: i.AttachMTU, Alias: alias, MAC: portMAC, Master: i.Attach}},
			Sysctls: []Sysctl{{"net/ipv6/conf/" + port + "/disable_ipv6", "1"}},
		}
	} else {
		link.Parent = i.Attach
	}
	inside := Plan{Links: []Link{link}, Sysctls: []Sysctl{
		{"net/ipv6/conf/" + i.Name + "/disable_ipv6", "0"},
		{"net/ipv6/conf/" + i.Name + "/accept_dad", "0"},
		{"net/ipv6/conf/" + i.Name + "/accept_ra", "0"},
	}}
	for _, a := range i.Addresses {
		inside.Addresses = append(inside.Addresses, Address{Link: i.Name, Prefix: a})
	}
	for _, r := range i.Routes {
		r.Link = i.Name
		inside.Routes = append(inside.Routes, r)
	}
	return InterfaceState{Inside: inside, Outside: outside}
}

// InterfaceAlias is the alias of a further link of a pod, by which it is known as ours at
// both ends.
func InterfaceAlias(scope, podID, name string) string {
	return strings.Join([]string{SpaceName(scope, podID), name}, ".")
}

// lines prints both plans of each further link.
func (s PodState) interfaceLines() (lines []string) {
	for _, i := range s.Interfaces {
		lines = append(lines, "interface "+i.Inside.Links[0].Name)
		lines = append(lines, indent(i.Inside.Lines())...)
		if len(i.Outside.Links) > 0 {
			lines = append(lines, "machine, for interface "+i.Inside.Links[0].Name)
			lines = append(lines, indent(i.Outside.Lines())...)
		}
	}
	return lines
}
