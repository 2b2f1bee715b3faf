package netstack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// PodLinkPrefix begins the name of the machine's end of every pod's link. Rules of
// firewalls match "slp*".
const PodLinkPrefix = "slp"

// interfaceLinkPrefix begins the name of the machine's end of a further link of a pod, a
// port of a bridge. What goes by it is not routed, so that it is no pod's link to firewalls.
const interfaceLinkPrefix = "sli"

// TranslatorLink is the machine's link to its NAT64.
const TranslatorLink = "slnat64"

// TunnelLink is the machine's WireGuard device.
const TunnelLink = "slwg"

// PodLink is the name of a pod's end of its link.
const PodLink = "eth0"

// Gateway is the next hop of every pod: the machine's end of its link.
var Gateway = netip.MustParseAddr("fe80::1")

// namePrefix begins every name of ours that a person may meet.
const namePrefix = "starling"

// Domain is what all names of the cluster are below; see package dns.
const Domain = "cluster"

// Resolv returns the resolv.conf of a pod of the namespace: a lone name is one of its
// own namespace, a service or a pod.
func Resolv(server netip.Addr, namespace string) string {
	return fmt.Sprintf("nameserver %s\nsearch %s.svc.%s %s.pod.%s svc.%s %s\n",
		server, namespace, Domain, namespace, Domain, Domain, Domain)
}

var partPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,96}$`)

// CheckName reports why a scope or a pod's ID can't be part of a name.
func CheckName(what, s string) error {
	if !partPattern.MatchString(s) {
		return fmt.Errorf("%s %q: use 1 to 96 letters, digits, '-' and '_'", what, s)
	}
	return nil
}

// SpaceName is the name of a pod's network namespace. The scope tells apart the peers
// that share a mount namespace, as those of a lab do. The pod's ID stands in it
// whole, so that what an earlier run left can be told from the name alone. The same
// string is the alias of the machine's end of the pod's link.
func SpaceName(scope, podID string) string {
	return strings.Join([]string{namePrefix, scope, podID}, ".")
}

// PodOfName takes SpaceName back; ok is false for a name that is not of this scope.
func PodOfName(scope, name string) (podID string, ok bool) {
	id, ok := strings.CutPrefix(name, namePrefix+"."+scope+".")
	return id, ok && partPattern.MatchString(id)
}

// HostLink is the name of the machine's end of a pod's link: the prefix and 48 bits
// of a hash, which make 15 bytes, the most that the kernel takes.
func HostLink(scope, podID string) string {
	sum := sha256.Sum256([]byte(SpaceName(scope, podID)))
	return PodLinkPrefix + hex.EncodeToString(sum[:6])
}

// IsHostLink reports whether a link's name could have been made by HostLink.
func IsHostLink(name string) bool {
	rest, ok := strings.CutPrefix(name, PodLinkPrefix)
	return ok && len(rest) == 12
}

// IsOurLink reports whether a link's name is one that only this package gives: then the link
// leads to a pod or to our own devices, and nowhere else.
func IsOurLink(name string) bool {
	rest, further := strings.CutPrefix(name, interfaceLinkPrefix)
	return IsHostLink(name) || (further && len(rest) == 12) || name == TranslatorLink || name == TunnelLink
}

// linkMACs are the link-layer addresses of the two ends of a pod's link, the machine's
// and the pod's. They follow from its name, so that a link that is made anew answers
// to what its neighbours remember.
func linkMACs(scope, podID string) (host, pod MAC) {
	sum := sha256.Sum256([]byte(SpaceName(scope, podID)))
	copy(host[:], sum[6:])
	copy(pod[:], sum[12:])
	for _, m := range []*MAC{&host, &pod} {
		m[0] = m[0]&^1 | 2 // unicast, locally administered
	}
	return host, pod
}

// PickIPv4 chooses a pod's IPv4 address in the machine's range: the one its ID hashes
// to, or the next that used does not know, so that a pod gets the same address again
// where it can. The range's first and last 256 addresses are left out. The zero Addr
// means that the range is full.
func PickIPv4(pool netip.Prefix, podID string, used func(netip.Addr) bool) netip.Addr {
	base := pool.Masked().Addr().As4()
	first := binary.BigEndian.Uint32(base[:]) + 256
	n := int64(1)<<(32-pool.Bits()) - 512
	if n <= 0 {
		return netip.Addr{}
	}
	sum := sha256.Sum256([]byte(podID))
	start := int64(binary.BigEndian.Uint32(sum[:4])) % n
	for i := range n {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], first+uint32((start+i)%n))
		if addr := netip.AddrFrom4(a); !used(addr) {
			return addr
		}
	}
	return netip.Addr{}
}
