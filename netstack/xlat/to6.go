package xlat

import "encoding/binary"

// Translate4to6 translates an IPv4 packet (RFC 7915, section 4) and appends what it
// emits to out. The packet must not lie in out's buffers.
func (t *Translator) Translate4to6(out *Out, packet []byte) Result {
	return t.to6(out, packet, 0, false)
}

// to6 translates an IPv4 packet. segment is the payload of a packet on the wire if this
// is a superpacket, else 0; turned says that it is in an intrinsic hairpin.
func (t *Translator) to6(out *Out, packet []byte, segment int, turned bool) Result {
	var h header4
	if r := h.parse(packet, false); r != None {
		return dropped(r)
	}
	if segment > 0 {
		if !segmentable(h.proto) || h.fragment() {
			return dropped(Malformed)
		}
		h.segment, h.super = min(segment, h.length), true
	}
	isError := h.proto == protoICMP4 && len(h.payload) > 0 && isError4(h.payload[0])
	switch {
	case onlyIn6(h.proto), h.proto == protoIGMP:
		return dropped(Untranslatable)
	case h.dst.illegal(), h.src.illegal() && !isError:
		return dropped(IllegalAddress)
	case h.proto == protoICMP4 && h.fragment():
		return Result{Incomplete, FragmentedICMP}
	case len(h.options) > 0 && h.sourceRouted():
		return t.answer4(out, &h, packet, SourceRoute)
	case h.ttl <= 1:
		return t.answer4(out, &h, packet, HopLimit)
	case isError:
		return t.error6(out, &h, turned)
	}
	if r := t.admit4(&h); r == NoChecksum || r == TooBig {
		return t.answer4(out, &h, packet, r)
	} else if r != None {
		return dropped(r)
	}
	g := header6{class: t.class(h.tos), limit: h.ttl - 1, proto: proto6(h.proto)}
	var ok bool
	if g.src, g.dst, ok = t.pair4(h.src, h.dst, turned); !ok {
		return dropped(Unmapped)
	}
	return t.emit6(out, &h, &g)
}

// admit4 finds out whether a packet can be translated at all.
func (t *Translator) admit4(h *header4) Reason {
	if h.offset == 0 {
		switch p := h.payload; h.proto {
		case protoTCP:
			if len(p) < 20 {
				return Malformed
			}
		case protoUDP:
			if len(p) < 8 {
				return Malformed
			}
			if p[6]|p[7] == 0 && !h.super {
				return t.admitNoChecksum(h)
			}
		case protoICMP4:
			if len(p) < icmpLen {
				return Malformed
			}
			if p[0] != echo4 && p[0] != echoReply4 {
				return Untranslatable
			}
		}
	}
	return t.admitSize4(h)
}

// admitNoChecksum decides about a UDP packet without checksum, which IPv6 does not have.
// Only a whole packet shows what the checksum must be.
func (t *Translator) admitNoChecksum(h *header4) Reason {
	if h.fragment() || !t.cfg.ComputeUDPChecksum {
		return NoChecksum
	}
	if int(binary.BigEndian.Uint16(h.payload[4:])) != h.length {
		return Malformed
	}
	return t.admitSize4(h)
}

// admitSize4 finds out whether the packet fits on the IPv6 side.
func (t *Translator) admitSize4(h *header4) Reason {
	if (h.df || h.super) && t.size6(h) > t.cfg.MTU6 {
		return TooBig
	}
	return None
}

// size6 is the size of the IPv6 packet that h becomes if it is not fragmented here.
func (t *Translator) size6(h *header4) int {
	if h.fragment() {
		return header6Len + fragmentLen + h.segment
	}
	return header6Len + h.segment
}

// onlyIn6 is true of protocol numbers that would turn a payload into an extension header
// or an ICMPv6 message, which nothing has checked.
func onlyIn6(p uint8) bool {
	switch p {
	case protoHopByHop, protoRouting, protoFragment, protoICMP6, protoDstOpts:
		return true
	}
	return false
}

func proto6(p uint8) uint8 {
	if p == protoICMP4 {
		return protoICMP6
	}
	return p
}

func (t *Translator) class(c uint8) uint8 {
	if t.cfg.ClearTrafficClass {
		return 0
	}
	return c
}

// emit6 emits the packet g with h's payload, in fragments if it must be.
func (t *Translator) emit6(out *Out, h *header4, g *header6) Result {
	g.frag, g.id = h.fragment(), uint32(h.id)
	room := h.length
	if size := t.size6(h); size > t.ceiling6 && !h.df && !h.super {
		g.frag = true
		room = (t.ceiling6 - header6Len - fragmentLen) &^ 7
	}
	for at := 0; at == 0 || at < h.length; at += room {
		g.length = min(room, h.length-at)
		g.offset = h.offset + at
		g.mf = h.mf || at+g.length < h.length
		b := out.alloc(g.size() + g.length)
		n := g.put(b)
		copy(b[n:], h.payload[at:at+g.length])
		if g.offset == 0 {
			finish6(h, g, b[n:])
		}
		if g.length == h.length {
			break
		}
	}
	return Result{Translated, None}
}

// finish6 brings a transport header, in place in l4, in line with the new addresses.
func finish6(h *header4, g *header6, l4 []byte) {
	minus, plus := uint64(h.src)+uint64(h.dst), g.src.sum()+g.dst.sum()
	switch {
	case h.super:
		adjustPartial(l4, h.proto, minus, plus)
	case h.proto == protoTCP:
		adjustAt(l4[16:], minus, plus)
	case h.proto == protoUDP:
		if l4[6]|l4[7] == 0 {
			minus, plus = 0, pseudo6(g.src, g.dst, protoUDP, h.length)+sum(h.payload)
			binary.BigEndian.PutUint16(l4[6:], 0xffff) // one's complement of an empty sum
		}
		adjustUDP(l4[6:], minus, plus)
	case h.proto == protoICMP4:
		minus = uint64(l4[0]) << 8
		l4[0] = echoTo6(l4[0])
		adjustAt(l4[2:], minus, uint64(l4[0])<<8+pseudo6(g.src, g.dst, protoICMP6, h.length))
	}
}
