package xlat

import "encoding/binary"

// Translate6to4 translates an IPv6 packet (RFC 7915, section 5) and appends what it
// emits to out. The packet must not lie in out's buffers.
func (t *Translator) Translate6to4(out *Out, packet []byte) Result {
	return t.from6(out, packet, 0)
}

// from6 translates an IPv6 packet; segment is as for to6.
func (t *Translator) from6(out *Out, packet []byte, segment int) Result {
	var h header6
	r := h.parse(packet, false)
	if r == Malformed {
		return dropped(r)
	}
	packet = packet[:header6Len+int(binary.BigEndian.Uint16(packet[4:]))] // without padding of the link
	if r != None {
		return t.answer6(out, &h, packet, r)
	}
	if segment > 0 {
		if !segmentable(h.proto) || h.fragment() {
			return dropped(Malformed)
		}
		h.segment, h.super = min(segment, h.length), true
	}
	isError := h.proto == protoICMP6 && h.offset == 0 && len(h.payload) > 0 && isError6(h.payload[0])
	switch {
	case onlyIn4(h.proto):
		return dropped(Untranslatable)
	case h.src.illegal(), h.dst.illegal():
		return dropped(IllegalAddress)
	case h.proto == protoICMP6 && h.fragment():
		return Result{Incomplete, FragmentedICMP}
	}
	dst, ok := t.map6(h.dst)
	if !ok {
		return dropped(Unmapped)
	}
	if t.turns(h.dst, dst) {
		return t.hairpin(out, packet, segment)
	}
	return t.to4(out, &h, packet, dst, isError)
}

// turns decides whether a packet to dst stays on the IPv6 side: it names a mapped node
// by its IPv4 address (RFC 7757, section 4.2.2).
func (t *Translator) turns(dst addr6, dst4 addr4) bool {
	if t.cfg.Hairpin != HairpinIntrinsic || len(t.eam.by4) == 0 || !t.eam.has4(dst4) {
		return false
	}
	_, explicit := t.eam.to4(dst)
	return !explicit
}

// hairpin translates a packet to IPv4 and back.
func (t *Translator) hairpin(out *Out, packet []byte, segment int) Result {
	straight := *t
	straight.cfg.Hairpin = HairpinOff
	middle := out.middle()
	if r := straight.from6(middle, packet, segment); r.Verdict != Translated {
		// An answer goes back to the IPv6 sender as it is.
		for i := range middle.Len() {
			copy(out.alloc(len(middle.Packet(i))), middle.Packet(i))
		}
		return r
	}
	result := dropped(Malformed)
	for i := range middle.Len() {
		if result = straight.to6(out, middle.Packet(i), segment, true); result.Verdict != Translated {
			return t.unturn(out, result)
		}
	}
	return Result{Hairpinned, None}
}

// unturn gives up a hairpin whose way back failed. An answer to the IPv4 packet in the
// middle would have to be translated itself to reach the sender.
func (t *Translator) unturn(out *Out, r Result) Result {
	if r.Verdict != Answered {
		return r
	}
	answer := append([]byte(nil), out.Packet(out.Len()-1)...)
	out.drop()
	if back := t.to6(out, answer, 0, false); back.Verdict != Translated {
		return dropped(r.Reason)
	}
	return r
}

// to4 translates a packet to dst, which stands for its destination.
func (t *Translator) to4(out *Out, h *header6, packet []byte, dst addr4, isError bool) Result {
	switch {
	case dst.illegal():
		return dropped(IllegalAddress)
	case h.pointer > 0:
		return t.answer6(out, h, packet, SourceRoute)
	case h.limit <= 1:
		return t.answer6(out, h, packet, HopLimit)
	case isError:
		return t.error4(out, h, dst)
	}
	src, ok := t.map6(h.src)
	switch {
	case !ok:
		return dropped(Unmapped)
	case src.illegal():
		return dropped(IllegalAddress)
	}
	if r := t.admit6(h); r != None {
		return dropped(r)
	}
	g := header4{
		src: src, dst: dst, tos: t.class(h.class), ttl: h.limit - 1, proto: proto4(h.proto),
		mf: h.mf, offset: h.offset, length: h.length, segment: h.segment,
	}
	if !t.identify(out, h, &g) {
		return t.answer6(out, h, packet, TooBig)
	}
	t.emit4(out, h, &g)
	return Result{Translated, None}
}

// onlyIn4 is the counterpart of onlyIn6.
func onlyIn4(p uint8) bool { return p == protoICMP4 || p == protoIGMP }

func proto4(p uint8) uint8 {
	if p == protoICMP6 {
		return protoICMP4
	}
	return p
}

// admit6 finds out whether the transport header can be translated.
func (t *Translator) admit6(h *header6) Reason {
	if h.offset > 0 {
		return None
	}
	switch p := h.payload; h.proto {
	case protoTCP:
		if len(p) < 20 {
			return Malformed
		}
	case protoUDP:
		if len(p) < 8 {
			return Malformed
		}
	case protoICMP6:
		if len(p) < icmpLen {
			return Malformed
		}
		if p[0] != echo6 && p[0] != echoReply6 {
			return Untranslatable
		}
	}
	return None
}

// safeSize is the IPv4 size up to which a packet without fragment header may be
// fragmented on its way: IPv6 hosts need not lower their MTU below 1,280, which is this
// much in IPv4 (RFC 7915, section 5.1).
const safeSize = minMTU6 - (header6Len - header4Len)

// identify sets the fields that steer fragmentation, and tells whether g can be sent:
// a packet larger than the MTU must be one that we may fragment. That is one which is
// not the sender's own fragment, and which the sender could not make smaller or has
// allowed to be fragmented by a fragment header.
func (t *Translator) identify(out *Out, h *header6, g *header4) bool {
	size := header4Len + g.segment
	g.df = !h.frag && size > safeSize
	switch {
	case h.frag:
		g.id = uint16(h.id)
	case !g.df:
		g.id = out.nextID()
	}
	if size <= t.cfg.MTU4 {
		return true
	}
	return !h.super && (size <= safeSize || h.frag && !h.fragment())
}

// emit4 emits the packet g with h's payload, in fragments if it is larger than the MTU.
func (t *Translator) emit4(out *Out, h *header6, g *header4) {
	room, offset := h.length, g.offset
	if header4Len+h.segment > t.cfg.MTU4 {
		room = (t.cfg.MTU4 - header4Len) &^ 7
	}
	for at := 0; at == 0 || at < h.length; at += room {
		g.length = min(room, h.length-at)
		g.offset = offset + at
		g.mf = h.mf || at+g.length < h.length
		b := out.alloc(header4Len + g.length)
		g.put(b)
		copy(b[header4Len:], h.payload[at:at+g.length])
		if g.offset == 0 {
			finish4(h, g, b[header4Len:])
		}
		if g.length == h.length {
			return
		}
	}
}

// finish4 brings a transport header, in place in l4, in line with the new addresses. A
// UDP packet without checksum (RFC 6935) keeps it so.
func finish4(h *header6, g *header4, l4 []byte) {
	minus, plus := h.src.sum()+h.dst.sum(), uint64(g.src)+uint64(g.dst)
	switch {
	case h.super:
		adjustPartial(l4, h.proto, minus, plus)
	case h.proto == protoTCP:
		adjustAt(l4[16:], minus, plus)
	case h.proto == protoUDP:
		if l4[6]|l4[7] != 0 {
			adjustUDP(l4[6:], minus, plus)
		}
	case h.proto == protoICMP6:
		minus = uint64(l4[0])<<8 + pseudo6(h.src, h.dst, protoICMP6, h.length)
		l4[0] = echoTo4(l4[0])
		adjustAt(l4[2:], minus, uint64(l4[0])<<8)
	}
}
