package api

import (
	"net/netip"
	"slices"
	"strings"
)

// maxLinkName is what the kernel takes for the name of a link.
const maxLinkName = 15

// reservedLinks are names that a pod's own links have, and that no further one can get.
var reservedLinks = []string{"lo", "eth0", "clat"}

// minMTU is what IPv6 needs of every link (RFC 8200, section 5).
const (
	minMTU = 1280
	maxMTU = 65535
)

// Interface is a further link of a pod, into a network that its machine is on.
type Interface struct {
	Name      string
	Attach    string // a link of the machine
	Addresses []string
	MTU       int64 // 0: that of the machine's link
}

// Route is what a pod reaches by one of its further links.
type Route struct {
	Name      string
	To        string // a prefix
	Via       string // the next hop; empty: the prefix is on the link itself
	Interface string
}

func (r *reader) networkInterface(at, name string) Interface {
	return Interface{Name: name, Attach: r.str(at + ".attach"), Addresses: r.strings(at + ".addresses"), MTU: r.int(at + ".mtu")}
}

func (r *reader) route(at, name string) Route {
	return Route{Name: name, To: r.str(at + ".to"), Via: r.str(at + ".via"), Interface: r.str(at + ".interface")}
}

// networkRules: further links and what is reached by them.
func networkRules(f Fields, add addFunc) {
	taken := map[netip.Addr]string{}
	names := f.Keys("spec.network.interfaces")
	for _, name := range names {
		at := Child("spec.network.interfaces", name)
		switch {
		case slices.Contains(reservedLinks, name):
			add(at, "a pod has a link %s already; choose another name", name)
		case len(name) > maxLinkName:
			add(at, "the name of a link has at most %d characters, and this one %d", maxLinkName, len(name))
		}
		if s := f.String(at + ".attach"); f.Has(at+".attach") && !isLinkName(s) {
			add(at+".attach", "%q is not the name of a link; see `ip link` on the machine", s)
		}
		intRange(f, at+".mtu", minMTU, maxMTU, add)
		for _, s := range f.Strings(at + ".addresses") {
			interfaceAddressRule(at+".addresses", s, taken, add)
		}
	}
	reached := map[netip.Prefix]string{}
	for _, name := range f.Keys("spec.network.routes") {
		podRouteRules(f, Child("spec.network.routes", name), names, reached, add)
	}
}

// isLinkName reports whether a machine can have a link of that name; the loopback leads nowhere.
func isLinkName(s string) bool {
	return s != "" && s != "lo" && s != "." && s != ".." && len(s) <= maxLinkName && !strings.ContainsAny(s, "/: \t\n")
}

// interfaceAddressRule checks one address, which the pod may have once.
func interfaceAddressRule(at, s string, taken map[netip.Addr]string, add addFunc) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		add(at, "%q is not an address with the length of its prefix; write one as in 192.0.2.7/24 or 2001:db8::7/64", s)
		return
	}
	a := p.Addr()
	if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.Is4In6() {
		add(at, "%s is no address that a link can have", a)
	}
	if other, ok := taken[a]; ok {
		add(at, "the pod has %s already, in %s", a, other)
	}
	taken[a] = at
}

// podRouteRules checks one route, and that its prefix is reached in one way.
func podRouteRules(f Fields, at string, interfaces []string, reached map[netip.Prefix]string, add addFunc) {
	link := f.String(at + ".interface")
	if f.Has(at+".interface") && !slices.Contains(interfaces, link) {
		add(at+".interface", "the pod has no further interface %q; add it to spec.network.interfaces%s", link, didYouMean(link, interfaces))
	}
	if !f.Has(at + ".to") {
		return
	}
	s := f.String(at + ".to")
	to, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		add(at+".to", "%q is not a prefix; write one as in 198.51.100.0/24 or 2001:db8:9::/48", s)
		return
	case to.Masked() != to:
		add(at+".to", "%s has bits beyond its length; did you mean %s?", s, to.Masked())
	case to.Bits() == 0 && to.Addr().Is6():
		add(at+".to", "the IPv6 default route leads into the cluster's network; name the prefixes that this interface is for")
	case to.Bits() == 0 && f.String("spec.network.ipv4") != IPv4None:
		add(at+".to", "the IPv4 default route leads by the pod's machine; write spec.network.ipv4: none, or name the prefixes that this interface is for")
	}
	if other, ok := reached[to.Masked()]; ok {
		add(at+".to", "%s is reached by %s already", to.Masked(), other)
	}
	reached[to.Masked()] = at
	nextHopRule(f, at, link, to, add)
}

// nextHopRule: the kernel takes only a next hop that is on the link.
func nextHopRule(f Fields, at, link string, to netip.Prefix, add addFunc) {
	s := f.String(at + ".via")
	if !f.Has(at + ".via") {
		return
	}
	via, err := netip.ParseAddr(s)
	switch {
	case err != nil || via.Zone() != "":
		add(at+".via", "%q is not an IP address; write one without prefix length, as in 192.0.2.1", s)
		return
	case via.Is4() != to.Addr().Is4():
		add(at+".via", "%s is not of the same family as %s", via, to)
		return
	case via.Is6() && via.IsLinkLocalUnicast():
		return
	}
	for _, a := range f.Strings(Child("spec.network.interfaces", link) + ".addresses") {
		if p, err := netip.ParsePrefix(a); err == nil && p.Contains(via) {
			return
		}
	}
	add(at+".via", "%s is in no prefix of the addresses of interface %s, so that it can't be reached there", via, link)
}
