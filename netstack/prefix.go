package netstack

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Lengths of the prefixes that addresses are built from.
const (
	ClusterBits = 48
	MachineBits = 96
	// ServiceBits is the length of the prefix that services have their addresses from.
	ServiceBits = 80
)

// The lowest and the highest addresses of a prefix are never drawn for a pod: the low
// ones are for the machine itself and for what is written by hand, the high ones are
// the reserved subnet anycast addresses of RFC 2526.
const (
	reservedLow  = 1 << 16
	reservedHigh = 1 << 7
)

// machineTag begins the interface identifiers that [LinkLocal] makes. Its group bit
// (0x0100) is set, so that no identifier made from a MAC address (RFC 4291, appendix
// A) is ever the same.
const machineTag = 0x0153

// ClusterPrefix returns the cluster's /48: the byte fd and the first 40 bits of the
// cluster's ID, which is a hash and so as good as the random global ID that RFC 4193
// (section 3.2.2) asks for. It panics if id has fewer than 5 bytes, which no ID has.
func ClusterPrefix(id []byte) netip.Prefix {
	mustHold(id, 5, "cluster")
	var a [16]byte
	a[0] = 0xfd
	copy(a[1:6], id)
	return netip.PrefixFrom(netip.AddrFrom16(a), ClusterBits)
}

// MachinePrefix returns a machine's /96: the cluster's /48 and the first 48 bits of the
// machine's ID, so that a person recognises the machine in the address. It panics if
// id has fewer than 6 bytes, which no ID has.
func MachinePrefix(cluster netip.Prefix, id []byte) netip.Prefix {
	mustHold(id, 6, "machine")
	a := cluster.Masked().Addr().As16()
	copy(a[6:12], id)
	return netip.PrefixFrom(netip.AddrFrom16(a), MachineBits)
}

func mustHold(id []byte, n int, whose string) {
	if len(id) < n {
		panic(fmt.Sprintf("netstack: a %s ID of %d bytes is no hash", whose, len(id)))
	}
}

// ServicePrefix returns the /80 that services have their addresses from: the cluster's
// /48 and 32 zero bits, which no machine's hash begins with but for bad luck of 1 in 4
// billion. Its 48 random bits keep 30,000 services apart with all but certainty.
func ServicePrefix(cluster netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(cluster.Masked().Addr(), ServiceBits)
}

// MachineAddress returns the machine's own address in its /96. The machine answers
// there for itself (names, and replies to what it sends to pods).
func MachineAddress(own netip.Prefix) netip.Addr {
	return offset(own, 1)
}

// LinkLocal returns the link-local address that the machine with the given /96 adds to
// its links of the cluster. Because it follows from the /96 alone, others on the link
// can use it as next hop even if they know the machine by an IPv4 address only.
func LinkLocal(own netip.Prefix) netip.Addr {
	from := own.Addr().As16()
	a := [16]byte{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint16(a[8:], machineTag)
	copy(a[10:], from[6:12])
	return netip.AddrFrom16(a)
}

// RandomAddress draws an address of the prefix for a pod; random yields 64 random bits
// per call. The prefix is IPv6 and at most a /104, which all prefixes of this package
// are; for any other the zero Addr is returned.
func RandomAddress(prefix netip.Prefix, random func() uint64) netip.Addr {
	if !prefix.IsValid() || !prefix.Addr().Is6() || prefix.Bits() > 104 {
		return netip.Addr{}
	}
	free := 128 - prefix.Bits()
	span := ^uint64(0) - (reservedLow + reservedHigh - 1)
	if free < 64 {
		span = 1<<free - (reservedLow + reservedHigh)
	}
	a := offset(prefix, reservedLow+random()%span)
	if free <= 64 {
		return a
	}
	b := a.As16()
	high := binary.BigEndian.Uint64(b[:]) | random()&(1<<(free-64)-1)
	binary.BigEndian.PutUint64(b[:], high)
	return netip.AddrFrom16(b)
}

// offset returns the n-th address of an IPv6 prefix.
func offset(p netip.Prefix, n uint64) netip.Addr {
	a := p.Masked().Addr().As16()
	binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(a[8:])|n)
	return netip.AddrFrom16(a)
}
