package dns

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

const reverseZone = ".ip6.arpa."

// nibbles are the hexadecimal digits of an address, the first one first.
const nibbles = 32

// reverse reads a reverse name below the cluster's prefix. whole is false for a name that
// stands above those of addresses.
func (z zone) reverse(name string) (a netip.Addr, whole, ours bool) {
	digits, ok := strings.CutSuffix(name, reverseZone)
	if !ok {
		return a, false, false
	}
	labels := strings.Split(digits, ".")
	if len(labels) > nibbles || len(labels)*4 < z.cluster.Bits() {
		return a, false, false
	}
	var b [16]byte
	for i, l := range labels {
		d := strings.Index("0123456789abcdef", l)
		if d < 0 || len(l) != 1 {
			return a, false, false
		}
		at := len(labels) - 1 - i // they come last first
		b[at/2] |= byte(d) << (4 * (1 - at%2))
	}
	a = netip.AddrFrom16(b)
	return a, len(labels) == nibbles, z.cluster.Contains(a)
}

func (z zone) findReverse(a netip.Addr, whole bool, q dns.Question) (found, bool) {
	if !whole {
		return found{}, true
	}
	name, ok := z.nameOf(a)
	if !ok || (q.Qtype != dns.TypePTR && q.Qtype != dns.TypeANY) {
		return found{}, ok
	}
	return found{records: []dns.RR{&dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: name}}}, true
}

func (z zone) nameOf(a netip.Addr) (string, bool) {
	o, ok := z.directory.Owner(a)
	switch {
	case !ok:
		return "", false
	case o.Pod != nil:
		return podName(o.Pod.Key), true
	case o.Service != nil:
		return serviceName(o.Service.Key), true
	}
	return o.Machine + ".machine." + root, true
}
