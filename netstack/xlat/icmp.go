package xlat

import "encoding/binary"

const (
	// maxError4 is the largest ICMPv4 error that is sure to arrive (RFC 1812, section
	// 4.3.2.3); ICMPv6 errors go up to the minimum MTU.
	maxError4 = 576
	// minOriginal is how much of the original packet stands, padded with zeros, before
	// an extension (RFC 4884, section 3).
	minOriginal = 128
	// The units of RFC 4884's length field.
	unit4, unit6 = 4, 8
)

// error6 translates an ICMPv4 error with the packet inside it.
func (t *Translator) error6(out *Out, h *header4, turned bool) Result {
	m, original, ext, r := open4(h.payload)
	if r != None {
		return dropped(r)
	}
	m6, ok := errorTo6(m)
	if !ok {
		return dropped(Untranslatable)
	}
	var in header4
	if r := in.parse(original, true); r != None {
		return dropped(r)
	}
	g := header6{class: t.class(h.tos), limit: h.ttl - 1, proto: protoICMP6}
	if g.src, g.dst, ok = t.errorPair6(h, turned); !ok {
		return dropped(Unmapped)
	}
	b := out.alloc(minMTU6)
	body := b[header6Len+icmpLen:]
	n, r := t.inner6(body, &in, turned)
	if r != None {
		out.drop()
		return dropped(r)
	}
	switch m6.kind {
	case packetTooBig6:
		m6.rest = uint32(t.mtu6(int(m.rest&0xffff), &in))
	case unreachable6, timeExceeded6:
		var words int
		n, words = layout(body, n, ext, unit6)
		m6.rest = uint32(words) << 24
	}
	g.length = icmpLen + n
	g.put(b)
	m6.put(b[header6Len:header6Len+g.length], pseudo6(g.src, g.dst, protoICMP6, g.length))
	out.trim(header6Len + g.length)
	return Result{Translated, None}
}

// errorPair6 maps the ends of an ICMP error, whose sender may have no counterpart.
func (t *Translator) errorPair6(h *header4, turned bool) (src, dst addr6, ok bool) {
	if src, dst, ok = t.pair4(h.src, h.dst, turned); ok {
		return src, dst, true
	}
	if dst, ok = t.map4(h.dst, true); !ok {
		return src, dst, false
	}
	src, ok = t.errorSource6(h.src)
	return src, dst, ok
}

// mtu6 translates the MTU of a Fragmentation Needed about the packet in.
func (t *Translator) mtu6(mtu int, in *header4) int {
	if mtu == 0 {
		mtu = plateau(header4Len + len(in.options) + in.length)
	}
	const grow = header6Len - header4Len
	return max(minMTU6, min(mtu+grow, t.cfg.MTU6, t.cfg.MTU4+grow))
}

// inner6 writes the IPv6 form of the packet inside an error to b, as far as it fits, and
// returns its length. The packet went the other way, so its ends change roles.
func (t *Translator) inner6(b []byte, in *header4, turned bool) (int, Reason) {
	if onlyIn6(in.proto) {
		return 0, Untranslatable
	}
	dst, src, ok := t.pair4(in.dst, in.src, turned)
	if !ok {
		return 0, Unmapped
	}
	g := header6{
		src: src, dst: dst, class: t.class(in.tos), limit: in.ttl, proto: proto6(in.proto),
		frag: in.fragment(), id: uint32(in.id), offset: in.offset, mf: in.mf, length: in.length,
	}
	n := g.put(b)
	l4 := b[n : n+copy(b[n:], in.payload)]
	if in.offset == 0 {
		if in.proto == protoICMP4 && len(l4) > 0 && l4[0] != echo4 && l4[0] != echoReply4 {
			return 0, Untranslatable
		}
		if checksumVisible(in.proto, l4) {
			finish6(in, &g, l4)
		}
	}
	return n + len(l4), None
}

// checksumVisible tells whether a transport header that may be cut off has a checksum
// that can be updated.
func checksumVisible(proto uint8, l4 []byte) bool {
	switch proto {
	case protoTCP:
		return len(l4) >= 18
	case protoUDP:
		return len(l4) >= 8 && l4[6]|l4[7] != 0
	case protoICMP4, protoICMP6:
		return len(l4) >= 4
	}
	return false
}

// error4 translates an ICMPv6 error with the packet inside it; dst stands for its
// destination.
func (t *Translator) error4(out *Out, h *header6, dst addr4) Result {
	m, original, ext, r := open6(h)
	if r != None {
		return dropped(r)
	}
	m4, ok := errorTo4(m)
	if !ok {
		return dropped(Untranslatable)
	}
	var in header6
	if r := in.parse(original, true); r != None {
		return dropped(r)
	}
	g := header4{dst: dst, tos: t.class(h.class), ttl: h.limit - 1, proto: protoICMP4}
	if g.src, ok = t.map6(h.src); !ok {
		if g.src, ok = t.errorSource4(h.src); !ok {
			return dropped(Unmapped)
		}
	}
	b := out.alloc(min(maxError4, t.cfg.MTU4))
	body := b[header4Len+icmpLen:]
	n, r := t.inner4(body, &in)
	if r != None {
		out.drop()
		return dropped(r)
	}
	switch {
	case m.kind == packetTooBig6:
		m4.rest = uint32(t.mtu4(int(m.rest), &in))
	case m4.kind != paramProblem4:
		var words int
		n, words = layout(body, n, ext, unit4)
		m4.rest = uint32(words) << 16
	}
	g.length, g.segment = icmpLen+n, icmpLen+n
	t.identify(out, h, &g)
	g.put(b)
	m4.put(b[header4Len:header4Len+g.length], 0)
	out.trim(header4Len + g.length)
	return Result{Translated, None}
}

// mtu4 translates the MTU of a Packet Too Big about the packet in.
func (t *Translator) mtu4(mtu int, in *header6) int {
	const grow = header6Len - header4Len
	return max(minMTU4, min(mtu-in.size()+header4Len, t.cfg.MTU4, t.cfg.MTU6-grow))
}

// inner4 is the counterpart of inner6.
func (t *Translator) inner4(b []byte, in *header6) (int, Reason) {
	if onlyIn4(in.proto) {
		return 0, Untranslatable
	}
	src, ok := t.map6(in.src)
	if !ok {
		return 0, Unmapped
	}
	dst, ok := t.map6(in.dst)
	if !ok {
		return 0, Unmapped
	}
	g := header4{
		src: src, dst: dst, tos: t.class(in.class), ttl: in.limit, proto: proto4(in.proto),
		df: !in.frag && header4Len+in.length > safeSize,
		mf: in.mf, id: uint16(in.id), offset: in.offset, length: in.length,
	}
	g.put(b)
	l4 := b[header4Len : header4Len+copy(b[header4Len:], in.payload)]
	if in.offset == 0 {
		if in.proto == protoICMP6 && len(l4) > 0 && l4[0] != echo6 && l4[0] != echoReply6 {
			return 0, Untranslatable
		}
		if checksumVisible(in.proto, l4) {
			finish4(in, &g, l4)
		}
	}
	return header4Len + len(l4), None
}

// open4 verifies an ICMPv4 error and takes it apart.
func open4(p []byte) (m message, original, ext []byte, r Reason) {
	if len(p) < icmpLen+header4Len {
		return m, nil, nil, Malformed
	}
	if fold(sum(p)) != 0xffff {
		return m, nil, nil, BadChecksum
	}
	m = readMessage(p)
	original, ext = split(p, int(p[5])*unit4)
	return m, original, ext, None
}

// open6 verifies an ICMPv6 error and takes it apart. Only Destination Unreachable and
// Time Exceeded have a length field; the others use the byte for something else.
func open6(h *header6) (m message, original, ext []byte, r Reason) {
	p := h.payload
	if len(p) < icmpLen+header6Len {
		return m, nil, nil, Malformed
	}
	if fold(sum(p)+pseudo6(h.src, h.dst, protoICMP6, len(p))) != 0xffff {
		return m, nil, nil, BadChecksum
	}
	m = readMessage(p)
	length := 0
	if m.kind == unreachable6 || m.kind == timeExceeded6 {
		length = int(p[4]) * unit6
	}
	original, ext = split(p, length)
	return m, original, ext, None
}

// split parts an ICMP error behind its header into the original packet and the
// extension that follows if a length is given (RFC 4884).
func split(p []byte, length int) (original, ext []byte) {
	if length == 0 || icmpLen+length > len(p) {
		return p[icmpLen:], nil
	}
	return p[icmpLen : icmpLen+length], p[icmpLen+length:]
}

// layout puts the extension behind the first n bytes of body, which hold the original
// packet, and returns the new length and the value of the length field. The original is
// cut, or padded to the minimum, so that all fits; an extension that still doesn't fit
// is left out, since half of one has no meaning.
func layout(body []byte, n int, ext []byte, unit int) (length, words int) {
	room := len(body) - len(ext)
	if len(ext) == 0 || room < minOriginal {
		return n, 0
	}
	end := min(n, room) / unit * unit
	if end < minOriginal {
		end = minOriginal
		clear(body[min(n, end):end])
	}
	return end + copy(body[end:], ext), end / unit
}

func readMessage(p []byte) message {
	return message{kind: p[0], code: p[1], rest: binary.BigEndian.Uint32(p[4:])}
}

// put writes the message's header at the start of b, the whole ICMP message, and its
// checksum; pseudo is the sum of the pseudo-header.
func (m message) put(b []byte, pseudo uint64) {
	b[0], b[1], b[2], b[3] = m.kind, m.code, 0, 0
	binary.BigEndian.PutUint32(b[4:], m.rest)
	binary.BigEndian.PutUint16(b[2:], ^fold(sum(b)+pseudo))
}
