package xlat

// A translator is a router, and answers as one: with an ICMP error in the family of the
// packet, never about an ICMP error, nor about a fragment that is not the first, nor to
// or about an address that is no single host (RFC 1812, section 4.3.2.7; RFC 4443,
// section 2.4). Limiting their rate is the driver's part, since that needs a clock.

// answer4 emits the ICMPv4 error that tells the sender of packet why it was refused.
func (t *Translator) answer4(out *Out, h *header4, packet []byte, why Reason) Result {
	isError := h.proto == protoICMP4 && len(h.payload) > 0 && isError4(h.payload[0])
	if t.own4 == 0 || isError || h.offset > 0 || h.src.illegal() {
		return dropped(why)
	}
	var m message
	switch why {
	case SourceRoute:
		m = message{kind: unreachable4, code: sourceRouted4}
	case HopLimit:
		m = message{kind: timeExceeded4}
	case NoChecksum:
		m = message{kind: unreachable4, code: prohibited4}
	case TooBig:
		m = message{kind: unreachable4, code: fragNeeded4, rest: uint32(t.roomFor4(h))}
	}
	whole := header4Len + len(h.options) + h.length
	n := min(whole, maxError4-header4Len-icmpLen)
	g := header4{
		src: t.own4, dst: h.src, ttl: answerHopLimit, proto: protoICMP4,
		id: out.nextID(), length: icmpLen + n,
	}
	b := out.alloc(header4Len + g.length)
	g.put(b)
	copy(b[header4Len+icmpLen:], packet[:n])
	m.put(b[header4Len:], 0)
	return Result{Answered, why}
}

// roomFor4 is the MTU to report for a packet that is too big: what fits into IPv6. For a
// fragment that would fit but for the fragment header, that much less.
func (t *Translator) roomFor4(h *header4) int {
	mtu := t.cfg.MTU6 - header6Len + header4Len
	if header4Len+len(h.options)+h.length <= mtu {
		mtu -= fragmentLen
	}
	return mtu
}

// answer6 emits the ICMPv6 error that tells the sender of packet why it was refused.
func (t *Translator) answer6(out *Out, h *header6, packet []byte, why Reason) Result {
	isError := h.proto == protoICMP6 && h.offset == 0 && len(h.payload) > 0 && isError6(h.payload[0])
	if t.own6 == (addr6{}) || isError || h.src.illegal() || h.dst.multicast() {
		return dropped(why)
	}
	var m message
	switch why {
	case SourceRoute:
		m = message{kind: paramProblem6, rest: uint32(h.pointer)}
	case HopLimit:
		m = message{kind: timeExceeded6}
	case ExtensionHeader:
		m = message{kind: unreachable6, code: prohibited6}
	case TooBig:
		m = message{kind: packetTooBig6, rest: uint32(max(minMTU6, t.cfg.MTU4-header4Len+header6Len))}
	}
	n := min(len(packet), minMTU6-header6Len-icmpLen)
	g := header6{
		src: t.own6, dst: h.src, limit: answerHopLimit, proto: protoICMP6, length: icmpLen + n,
	}
	b := out.alloc(header6Len + g.length)
	g.put(b)
	copy(b[header6Len+icmpLen:], packet[:n])
	m.put(b[header6Len:], pseudo6(g.src, g.dst, protoICMP6, g.length))
	return Result{Answered, why}
}
