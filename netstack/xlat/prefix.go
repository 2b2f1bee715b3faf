package xlat

import (
	"encoding/binary"
	"net/netip"
)

// addr4 is an IPv4 address in host order.
type addr4 uint32

func toAddr4(a netip.Addr) addr4 {
	b := a.As4()
	return addr4(binary.BigEndian.Uint32(b[:]))
}

func (a addr4) netip() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(a))
	return netip.AddrFrom4(b)
}

// multicast also covers the reserved class E and limited broadcast: nothing from
// 224.0.0.0 upwards is forwarded.
func (a addr4) multicast() bool { return a>>28 >= 14 }

// illegal is true of addresses that a router must not forward from or to: "this
// network", loopback, multicast and reserved (RFC 1812, section 5.3.7).
func (a addr4) illegal() bool { return a>>24 == 0 || a>>24 == 127 || a.multicast() }

// addr6 is an IPv6 address as two big-endian words.
type addr6 struct{ hi, lo uint64 }

func toAddr6(a netip.Addr) addr6 {
	b := a.As16()
	return loadAddr6(b[:])
}

func loadAddr6(b []byte) addr6 {
	return addr6{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func (a addr6) put(b []byte) {
	binary.BigEndian.PutUint64(b, a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
}

func (a addr6) netip() netip.Addr {
	var b [16]byte
	a.put(b[:])
	return netip.AddrFrom16(b)
}

// sum is the address's part of a one's complement sum.
func (a addr6) sum() uint64 {
	return a.hi>>32 + a.hi&0xffffffff + a.lo>>32 + a.lo&0xffffffff
}

func (a addr6) multicast() bool { return a.hi>>56 == 0xff }

// illegal is true of addresses that never leave a host or link: unspecified, loopback,
// multicast and link-local.
func (a addr6) illegal() bool {
	return a.hi == 0 && a.lo <= 1 || a.multicast() || a.hi>>54 == 0xfe80>>6
}

// mask6 is a netmask of n bits.
func mask6(n int) addr6 {
	if n <= 64 {
		return addr6{hi: ^uint64(0) << (64 - n)}
	}
	return addr6{hi: ^uint64(0), lo: ^uint64(0) << (128 - n)}
}

func (a addr6) and(m addr6) addr6 { return addr6{a.hi & m.hi, a.lo & m.lo} }

// prefix embeds IPv4 addresses in IPv6 addresses (RFC 6052, section 2.2). The address
// follows the prefix and skips the "u" octet, bits 64 to 71, which stays zero:
//
//	/32   prefix    |v4(32)                  |u |suffix
//	/40   prefix        |v4(24)              |u |(8)  |suffix
//	/48   prefix            |v4(16)          |u |(16)     |suffix
//	/56   prefix                   |(8)      |u |v4(24)        |suffix
//	/64   prefix                             |u |v4(32)            |suffix
//	/96   prefix                                                   |v4(32)
type prefix struct {
	base, mask addr6
	bits       int
	// wellKnown is set for 64:ff9b::/96, which must not represent addresses that are
	// not global (RFC 6052, section 3.1).
	wellKnown bool
}

func newPrefix(p netip.Prefix) prefix {
	return prefix{
		base:      toAddr6(p.Masked().Addr()),
		mask:      mask6(p.Bits()),
		bits:      p.Bits(),
		wellKnown: p.Masked() == netip.MustParsePrefix("64:ff9b::/96"),
	}
}

// embed returns the IPv6 address that represents a.
func (p *prefix) embed(a addr4) addr6 {
	v := uint64(a)
	if p.bits == 96 {
		return addr6{p.base.hi, p.base.lo | v}
	}
	behind := p.bits - 32 // how many of the 32 bits lie behind the u octet
	return addr6{
		hi: p.base.hi | v>>behind,
		lo: p.base.lo | v&(1<<behind-1)<<(56-behind),
	}
}

// extract returns the IPv4 address that a represents, if a lies under the prefix and
// its u octet is zero. The suffix is ignored (RFC 6052, section 2.3).
func (p *prefix) extract(a addr6) (addr4, bool) {
	if a.and(p.mask) != p.base {
		return 0, false
	}
	if p.bits == 96 {
		return addr4(a.lo), true
	}
	behind := p.bits - 32
	v := a.hi<<behind | a.lo>>(56-behind)&(1<<behind-1)
	return addr4(v), a.lo>>56 == 0
}

// notGlobal lists what the well-known prefix must not stand for (RFC 6890).
var notGlobal = [...]struct {
	base addr4
	bits int
}{
	{0x0a000000, 8},  // 10.0.0.0/8
	{0x64400000, 10}, // 100.64.0.0/10
	{0xa9fe0000, 16}, // 169.254.0.0/16
	{0xac100000, 12}, // 172.16.0.0/12
	{0xc0000000, 24}, // 192.0.0.0/24
	{0xc0000200, 24}, // 192.0.2.0/24
	{0xc0a80000, 16}, // 192.168.0.0/16
	{0xc6120000, 15}, // 198.18.0.0/15
	{0xc6336400, 24}, // 198.51.100.0/24
	{0xcb007100, 24}, // 203.0.113.0/24
}

// global is false for addresses of private and special use.
func (a addr4) global() bool {
	for _, r := range &notGlobal {
		if (a^r.base)>>(32-r.bits) == 0 {
			return false
		}
	}
	return !a.illegal()
}
