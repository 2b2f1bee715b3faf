package xlat

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// This file builds and checks packets for the tests, by plain means of its own: no code
// is shared with the translator.

func testConfig() Config {
	return Config{
		Prefix:      netip.MustParsePrefix("64:ff9b:1::/96"),
		Translator4: netip.MustParseAddr("192.0.0.8"),
		Translator6: netip.MustParseAddr("fd00::1"),
	}
}

// ends are a packet's source and destination, of either family.
type ends struct{ src, dst netip.Addr }

func family(a netip.Addr) string {
	if a.Is4() {
		return "4"
	}
	return "6"
}

func protoName(p uint8) string {
	switch p {
	case protoTCP:
		return "tcp"
	case protoUDP:
		return "udp"
	case protoICMP4, protoICMP6:
		return "icmp"
	}
	return fmt.Sprint(p)
}

// packet makes a valid unfragmented packet of size bytes (as IPv4; 20 more as IPv6).
func (e ends) packet(proto uint8, size int) []byte {
	return e.wrap(proto, e.transport(proto, pattern(size-header4Len)))
}

// pattern is a payload in which every place looks different.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// transport turns b into a message of the protocol with a right checksum.
func (e ends) transport(proto uint8, b []byte) []byte {
	at := 2
	switch proto {
	case protoTCP:
		b[12], at = 5<<4, 16
	case protoUDP:
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
		at = 6
	case protoICMP4:
		b[0], b[1] = echo4, 0
	case protoICMP6:
		b[0], b[1] = echo6, 0
	default:
		return b
	}
	b[at], b[at+1] = 0, 0
	c := slowChecksum(e.pseudo(proto, len(b)), b)
	if proto == protoUDP && c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[at:], c)
	return b
}

// pseudo is the pseudo-header that a checksum of the protocol covers.
func (e ends) pseudo(proto uint8, n int) []byte {
	if proto == protoICMP4 {
		return nil
	}
	p := append(e.src.AsSlice(), e.dst.AsSlice()...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(p, uint32(proto)), uint32(n))
}

// wrap puts an IP header without fragmentation in front of a payload.
func (e ends) wrap(proto uint8, payload []byte) []byte {
	if e.src.Is4() {
		return e.wrap4(proto, payload, 0x4000)
	}
	b := make([]byte, header6Len, header6Len+len(payload))
	b[0], b[6], b[7] = 0x60, proto, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], e.src.AsSlice())
	copy(b[24:], e.dst.AsSlice())
	return append(b, payload...)
}

// wrap4 is wrap for IPv4 with the flags and fragment offset as given.
func (e ends) wrap4(proto uint8, payload []byte, frag uint16) []byte {
	b := make([]byte, header4Len, header4Len+len(payload))
	b[0], b[8], b[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(b[2:], uint16(header4Len+len(payload)))
	binary.BigEndian.PutUint16(b[4:], 0x1234)
	binary.BigEndian.PutUint16(b[6:], frag)
	copy(b[12:], e.src.AsSlice())
	copy(b[16:], e.dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], slowChecksum(b))
	return append(b, payload...)
}

// slowChecksum is the checksum of RFC 1071, a word at a time.
func slowChecksum(parts ...[]byte) uint16 {
	var s uint32
	for _, p := range parts {
		for i := 0; i < len(p); i += 2 {
			w := uint32(p[i]) << 8
			if i+1 < len(p) {
				w |= uint32(p[i+1])
			}
			s += w
			s = s>>16 + s&0xffff
		}
	}
	return ^uint16(s)
}
