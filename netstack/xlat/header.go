package xlat

import "encoding/binary"

// header4 is what a translator needs of an IPv4 packet.
type header4 struct {
	src, dst addr4
	tos, ttl uint8
	proto    uint8
	df, mf   bool
	id       uint16
	offset   int // of the payload in its datagram, in bytes
	options  []byte
	payload  []byte
	// length is the payload's length according to the header. It differs from
	// len(payload) only for the packet inside an ICMP error, which may be cut off.
	length int
	// segment is the payload length of the largest packet on the wire: length, unless
	// the packet is a superpacket, whose checksum is partial.
	segment int
	super   bool
}

// fragment says whether the packet is only a part of its datagram.
func (h *header4) fragment() bool { return h.mf || h.offset > 0 }

// parse reads a packet. inner is set for one inside an ICMP error: it may be cut off
// behind its header, and its checksum is not looked at (others may have changed it).
func (h *header4) parse(p []byte, inner bool) Reason {
	if len(p) < header4Len || p[0]>>4 != 4 {
		return Malformed
	}
	ihl := int(p[0]&15) * 4
	total := int(binary.BigEndian.Uint16(p[2:]))
	if ihl < header4Len || ihl > len(p) || total < ihl || total > len(p) && !inner {
		return Malformed
	}
	if !inner && fold(sum(p[:ihl])) != 0xffff {
		return BadChecksum
	}
	frag := binary.BigEndian.Uint16(p[6:])
	h.tos, h.ttl, h.proto = p[1], p[8], p[9]
	h.id = binary.BigEndian.Uint16(p[4:])
	h.df, h.mf = frag&0x4000 != 0, frag&0x2000 != 0
	h.offset = int(frag&0x1fff) * 8
	h.src = addr4(binary.BigEndian.Uint32(p[12:]))
	h.dst = addr4(binary.BigEndian.Uint32(p[16:]))
	h.options = p[header4Len:ihl]
	h.payload = p[ihl:min(total, len(p))]
	h.length = total - ihl
	h.segment = h.length
	if h.offset+h.length > 65535 {
		return Malformed
	}
	return None
}

// put writes an IPv4 header without options in front of a payload of h.length bytes.
func (h *header4) put(b []byte) {
	frag := uint16(h.offset / 8)
	if h.df {
		frag |= 0x4000
	}
	if h.mf {
		frag |= 0x2000
	}
	b[0], b[1] = 4<<4|header4Len/4, h.tos
	binary.BigEndian.PutUint16(b[2:], uint16(header4Len+h.length))
	binary.BigEndian.PutUint16(b[4:], h.id)
	binary.BigEndian.PutUint16(b[6:], frag)
	b[8], b[9] = h.ttl, h.proto
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint32(b[12:], uint32(h.src))
	binary.BigEndian.PutUint32(b[16:], uint32(h.dst))
	binary.BigEndian.PutUint16(b[10:], ^fold(sum(b[:header4Len])))
}

// sourceRouted tells whether the packet carries a loose or strict source route that is
// not used up. Options that make no sense end the search, as everything else in them is
// ignored anyway.
func (h *header4) sourceRouted() bool {
	const end, nop, loose, strict = 0, 1, 131, 137
	for o := h.options; len(o) > 0 && o[0] != end; {
		if o[0] == nop {
			o = o[1:]
			continue
		}
		if len(o) < 3 || o[1] < 2 || int(o[1]) > len(o) {
			return false
		}
		if (o[0] == loose || o[0] == strict) && o[2] <= o[1] {
			return true
		}
		o = o[o[1]:]
	}
	return false
}

// header6 is what a translator needs of an IPv6 packet, its extension headers skipped.
type header6 struct {
	src, dst     addr6
	class, limit uint8
	proto        uint8
	frag         bool // there is a fragment header
	mf           bool
	id           uint32
	offset       int
	payload      []byte // behind the extension headers
	length       int    // of the payload according to the header, as in header4
	segment      int    // as in header4
	super        bool
	// pointer is the offset of the segments-left field of a routing header that is not
	// used up; 0 if there is none.
	pointer int
}

// fragment says whether the packet is only a part of its datagram.
func (h *header6) fragment() bool { return h.mf || h.offset > 0 }

// parse reads a packet; inner as for header4.
func (h *header6) parse(p []byte, inner bool) Reason {
	if len(p) < header6Len || p[0]>>4 != 6 {
		return Malformed
	}
	h.length = int(binary.BigEndian.Uint16(p[4:]))
	end := header6Len + h.length
	if end > len(p) {
		if !inner {
			return Malformed
		}
		end = len(p)
	}
	h.class = p[0]<<4 | p[1]>>4
	h.proto, h.limit = p[6], p[7]
	h.src, h.dst = loadAddr6(p[8:]), loadAddr6(p[24:])
	h.payload = p[header6Len:end]
	h.segment = h.length
	if h.proto == protoTCP || h.proto == protoUDP {
		return None
	}
	return h.skip(header6Len)
}

// skip walks over the extension headers; at is the payload's offset in the packet.
func (h *header6) skip(at int) Reason {
	for {
		size := 0
		switch h.proto {
		case protoHopByHop, protoDstOpts, protoRouting:
			if h.frag {
				return ExtensionHeader
			}
			if len(h.payload) < 8 {
				return Malformed
			}
			size = int(h.payload[1])*8 + 8
			if h.proto == protoRouting && h.payload[3] > 0 && h.pointer == 0 {
				h.pointer = at + 3
			}
		case protoFragment:
			if h.frag {
				return ExtensionHeader
			}
			if len(h.payload) < 8 {
				return Malformed
			}
			size = fragmentLen
			h.readFragment()
		case protoAH, protoMobility, protoHIP, protoShim6:
			if h.frag {
				return ExtensionHeader
			}
			return None
		default:
			return h.checkFragment()
		}
		if size > len(h.payload) {
			return Malformed
		}
		h.proto = h.payload[0]
		h.payload = h.payload[size:]
		h.length -= size
		h.segment = h.length
		at += size
	}
}

func (h *header6) readFragment() {
	h.frag = true
	field := binary.BigEndian.Uint16(h.payload[2:])
	h.offset, h.mf = int(field&^7), field&1 != 0
	h.id = binary.BigEndian.Uint32(h.payload[4:])
}

func (h *header6) checkFragment() Reason {
	if h.offset+h.length > 65535 {
		return Malformed
	}
	return None
}

// size is the length of the headers that put writes.
func (h *header6) size() int {
	if h.frag {
		return header6Len + fragmentLen
	}
	return header6Len
}

// put writes the fixed header, and the fragment header if there is one, in front of a
// payload of h.length bytes, and returns the length written.
func (h *header6) put(b []byte) int {
	n := h.size()
	b[0], b[1], b[2], b[3] = 6<<4|h.class>>4, h.class<<4, 0, 0
	b[6], b[7] = h.proto, h.limit
	h.src.put(b[8:])
	h.dst.put(b[24:])
	if h.frag {
		b[6] = protoFragment
		f := b[header6Len:n]
		more := uint16(0)
		if h.mf {
			more = 1
		}
		f[0], f[1] = h.proto, 0
		binary.BigEndian.PutUint16(f[2:], uint16(h.offset)|more)
		binary.BigEndian.PutUint32(f[4:], h.id)
	}
	binary.BigEndian.PutUint16(b[4:], uint16(n-header6Len+h.length))
	return n
}
