package api

import "testing"

// TestNetworkRules: what keeps a pod's further interfaces and routes from working is said
// before anything is changed.
func TestNetworkRules(t *testing.T) {
	base := Fields{
		"spec.containers.app.image":                 Str("a"),
		"spec.network.interfaces.storage.attach":    Str("br0"),
		"spec.network.interfaces.storage.addresses": List("192.0.2.7/24", "2001:db8::7/64"),
		"spec.network.routes.backup.to":             Str("198.51.100.0/24"),
		"spec.network.routes.backup.via":            Str("192.0.2.1"),
		"spec.network.routes.backup.interface":      Str("storage"),
	}
	const (
		links  = "spec.network.interfaces."
		routes = "spec.network.routes."
		at     = links + "storage"
		route  = routes + "backup"
	)
	for _, tt := range []struct{ name, path, value, want string }{
		{"all well", at + ".mtu", "9000", ""},
		{"the pod's own link", links + "eth0.attach", Str("br0"), links + "eth0: a pod has a link eth0 already; choose another name"},
		{"a long name", links + "a123456789012345.attach", Str("br0"), links + "a123456789012345: the name of a link has at most 15 characters, and this one 16"},
		{"no name of a link", at + ".attach", Str("br/0"), at + ".attach: \"br/0\" is not the name of a link; see `ip link` on the machine"},
		{"the loopback", at + ".attach", Str("lo"), at + ".attach: \"lo\" is not the name of a link; see `ip link` on the machine"},
		{"a small MTU", at + ".mtu", "1000", at + ".mtu: 1000 is not between 1280 and 65535"},
		{"an address without its prefix", at + ".addresses", List("192.0.2.7"), at + `.addresses: "192.0.2.7" is not an address with the length of its prefix; write one as in 192.0.2.7/24 or 2001:db8::7/64`},
		{"an address twice", links + "b.addresses", List("192.0.2.7/32"), at + ".addresses: the pod has 192.0.2.7 already, in " + links + "b.addresses"},
		{"a multicast address", at + ".addresses", List("192.0.2.7/24", "ff02::1/128"), at + ".addresses: ff02::1 is no address that a link can have"},
		{"no such interface", route + ".interface", Str("storag"), route + `.interface: the pod has no further interface "storag"; add it to spec.network.interfaces; did you mean storage?`},
		{"no prefix", route + ".to", Str("198.51.100.0"), route + `.to: "198.51.100.0" is not a prefix; write one as in 198.51.100.0/24 or 2001:db8:9::/48`},
		{"bits beyond", route + ".to", Str("198.51.100.1/24"), route + ".to: 198.51.100.1/24 has bits beyond its length; did you mean 198.51.100.0/24?"},
		{"the default route", route + ".to", Str("0.0.0.0/0"), route + ".to: the IPv4 default route leads by the pod's machine; write spec.network.ipv4: none, or name the prefixes that this interface is for"},
		{"another family", route + ".via", Str("2001:db8::1"), route + ".via: 2001:db8::1 is not of the same family as 198.51.100.0/24"},
		{"out of reach", route + ".via", Str("192.0.3.1"), route + ".via: 192.0.3.1 is in no prefix of the addresses of interface storage, so that it can't be reached there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := base.Clone()
			f[tt.path] = tt.value
			if tt.path == links+"b.addresses" {
				f[links+"b.attach"] = Str("br0")
			}
			got := ""
			for _, p := range Validate("Pod", f) {
				if got == "" { // the one at fault comes first; a changed address may strand the route as well
					got = p.String()
				}
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	f := base.Clone()
	f["spec.network.ipv4"], f[route+".to"] = Str(IPv4None), Str("0.0.0.0/0")
	f[routes+"six.to"], f[routes+"six.interface"], f[routes+"six.via"] = Str("2001:db8:9::/48"), Str("storage"), Str("fe80::1")
	if problems := Validate("Pod", f); len(problems) > 0 {
		t.Errorf("a pod without IPv4 of its own may have its default route elsewhere, and a link-local next hop: %v", problems)
	}
}
