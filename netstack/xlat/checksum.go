package xlat

import (
	"encoding/binary"
	"math/bits"
)

// Sums here are one's complement sums of big-endian 16-bit words (RFC 1071), kept in
// 64 bits and folded at the end. A 32-bit word may be added as it is, because 2^16 is 1
// modulo 2^16-1.

// fold brings a sum down to 16 bits.
func fold(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s)
}

// sum adds up b, which starts on an even offset of its message. An odd last byte counts
// as the high half of a word.
func sum(b []byte) uint64 {
	var s, carry uint64
	for len(b) >= 32 {
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[8:]), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[16:]), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	s, carry = bits.Add64(s, tail(b), carry)
	return s>>32 + s&0xffffffff + carry
}

// tail is the word that up to seven last bytes make, padded with zeros.
func tail(b []byte) uint64 {
	var w uint64
	for i, c := range b {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// adjust updates checksum c of a message from which words with the sum minus were taken
// and to which words with the sum plus were added (RFC 1624, equation 3).
func adjust(c uint16, minus, plus uint64) uint16 {
	return ^fold(uint64(^c) + uint64(^fold(minus)) + plus)
}

// adjustAt updates the checksum that stands at the start of b.
func adjustAt(b []byte, minus, plus uint64) {
	binary.BigEndian.PutUint16(b, adjust(binary.BigEndian.Uint16(b), minus, plus))
}

// adjustUDP updates a UDP checksum. A result of zero is written as 0xffff, since zero
// means that there is no checksum.
func adjustUDP(b []byte, minus, plus uint64) {
	c := adjust(binary.BigEndian.Uint16(b), minus, plus)
	if c == 0 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b, c)
}

// adjustPartial updates the field of a TCP or UDP header that waits for its checksum to
// be completed: it holds the sum of the pseudo-header, not its complement.
func adjustPartial(l4 []byte, proto uint8, minus, plus uint64) {
	at := 6
	if proto == protoTCP {
		at = 16
	}
	c := ^adjust(^binary.BigEndian.Uint16(l4[at:]), minus, plus)
	binary.BigEndian.PutUint16(l4[at:], c)
}

// pseudo6 is the sum of an IPv6 pseudo-header.
func pseudo6(src, dst addr6, proto uint8, length int) uint64 {
	return src.sum() + dst.sum() + uint64(proto) + uint64(length)
}
