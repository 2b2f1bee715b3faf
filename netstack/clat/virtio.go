package clat

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// virtioLen is the length of the header that stands in front of every packet on a TUN
// link with IFF_VNET_HDR: struct virtio_net_hdr in the host's byte order.
const virtioLen = 10

// virtio is that header. It tells what the kernel has left undone (on reading) or asks
// it to do (on writing): completing a checksum, cutting a superpacket into segments.
type virtio struct {
	flags, gsoType         uint8
	headers, segment       uint16 // lengths
	checksumAt, checksumIn uint16 // where the sum starts; where in it the field is
}

func readVirtio(b []byte) virtio {
	return virtio{
		flags: b[0], gsoType: b[1],
		headers:    binary.NativeEndian.Uint16(b[2:]),
		segment:    binary.NativeEndian.Uint16(b[4:]),
		checksumAt: binary.NativeEndian.Uint16(b[6:]),
		checksumIn: binary.NativeEndian.Uint16(b[8:]),
	}
}

func (v virtio) put(b []byte) {
	b[0], b[1] = v.flags, v.gsoType
	binary.NativeEndian.PutUint16(b[2:], v.headers)
	binary.NativeEndian.PutUint16(b[4:], v.segment)
	binary.NativeEndian.PutUint16(b[6:], v.checksumAt)
	binary.NativeEndian.PutUint16(b[8:], v.checksumIn)
}

func (v virtio) super() bool { return v.gsoType != unix.VIRTIO_NET_HDR_GSO_NONE }

func (v virtio) partial() bool { return v.flags&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 }

// transport is the length of a superpacket's transport header; 0 for something that is
// not a superpacket which we asked for.
func (v virtio) transport(packet []byte) int {
	at := int(v.checksumAt)
	if !v.partial() || v.segment == 0 {
		return 0
	}
	switch v.gsoType &^ unix.VIRTIO_NET_HDR_GSO_ECN {
	case unix.VIRTIO_NET_HDR_GSO_TCPV4, unix.VIRTIO_NET_HDR_GSO_TCPV6:
		if n := at + 13; n > len(packet) {
			return 0
		}
		n := int(packet[at+12]>>4) * 4
		if n < 20 || at+n > len(packet) {
			return 0
		}
		return n
	case unix.VIRTIO_NET_HDR_GSO_UDP_L4:
		return 8
	}
	return 0
}

// moved is the header for the superpacket that v's became in the other family.
func (v virtio) moved(packet []byte, transport int) virtio {
	at := uint16(20)
	if packet[0]>>4 == 6 {
		at = 40
	}
	v.checksumAt, v.headers = at, at+uint16(transport)
	ecn := v.gsoType & unix.VIRTIO_NET_HDR_GSO_ECN
	switch {
	case v.gsoType&^unix.VIRTIO_NET_HDR_GSO_ECN == unix.VIRTIO_NET_HDR_GSO_UDP_L4:
	case packet[0]>>4 == 4:
		v.gsoType = unix.VIRTIO_NET_HDR_GSO_TCPV4 | ecn
	default:
		v.gsoType = unix.VIRTIO_NET_HDR_GSO_TCPV6 | ecn
	}
	return v
}

// complete finishes a checksum that the kernel has left to us, in place, and tells
// whether it could. The field holds the sum of the pseudo-header.
func (v virtio) complete(packet []byte) bool {
	at, field := int(v.checksumAt), int(v.checksumAt)+int(v.checksumIn)
	if field+2 > len(packet) {
		return false
	}
	var sum uint64
	for b := packet[at:]; len(b) > 0; {
		if len(b) == 1 {
			sum += uint64(b[0]) << 8
			break
		}
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	c := ^uint16(sum)
	if c == 0 {
		c = 0xffff // the same value; for UDP, zero would mean "no checksum"
	}
	binary.BigEndian.PutUint16(packet[field:], c)
	return true
}
