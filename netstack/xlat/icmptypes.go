package xlat

// The ICMP messages that have a counterpart (RFC 7915, sections 4.2 and 5.2). All others
// are dropped: single-hop messages, obsolete ones and unknown ones.

// ICMPv4 types.
const (
	echoReply4    = 0
	unreachable4  = 3
	quench4       = 4
	redirect4     = 5
	echo4         = 8
	timeExceeded4 = 11
	paramProblem4 = 12
)

// ICMPv6 types. Those below 128 are errors.
const (
	unreachable6   = 1
	packetTooBig6  = 2
	timeExceeded6  = 3
	paramProblem6  = 4
	echo6          = 128
	echoReply6     = 129
	firstInfoType6 = 128
)

// Codes of Destination Unreachable, by family, and of ICMPv6's Parameter Problem.
const (
	hostUnreach4  = 1
	protoUnreach4 = 2
	portUnreach4  = 3
	fragNeeded4   = 4
	sourceRouted4 = 5
	hostProhibit4 = 10
	prohibited4   = 13

	prohibited6  = 1
	portUnreach6 = 4

	unknownNext6 = 1
)

const (
	nextHeaderAt6 = 6 // where an IPv6 header says what follows
	noCounterpart = 0xff
)

// isError4 is true of ICMPv4 types that report a problem with a packet.
func isError4(t uint8) bool {
	switch t {
	case unreachable4, quench4, redirect4, timeExceeded4, paramProblem4:
		return true
	}
	return false
}

// isError6 is true of ICMPv6 types that report a problem with a packet.
func isError6(t uint8) bool { return t < firstInfoType6 }

func echoTo6(t uint8) uint8 {
	if t == echo4 {
		return echo6
	}
	return echoReply6
}

func echoTo4(t uint8) uint8 {
	if t == echo6 {
		return echo4
	}
	return echoReply4
}

// message is the first half of an ICMP error: type, code and the four bytes behind the
// checksum.
type message struct {
	kind, code uint8
	rest       uint32
}

// unreachableTo6 gives, by ICMPv4 code, the code of an ICMPv6 Destination Unreachable.
// Codes 2 and 4 become messages of another type.
var unreachableTo6 = [16]uint8{
	0: 0, 1: 0, 5: 0, 6: 0, 7: 0, 8: 0, 11: 0, 12: 0,
	2: noCounterpart, 4: noCounterpart, 14: noCounterpart,
	3: portUnreach6,
	9: prohibited6, 10: prohibited6, 13: prohibited6, 15: prohibited6,
}

// unreachableTo4 gives, by ICMPv6 code, the code of an ICMPv4 Destination Unreachable.
var unreachableTo4 = [5]uint8{hostUnreach4, hostProhibit4, hostUnreach4, hostUnreach4, portUnreach4}

// pointerTo6 gives the place in an IPv6 header of a field of the IPv4 header (RFC 7915,
// figure 3).
var pointerTo6 = [header4Len]uint8{
	0, 1, 4, 4, noCounterpart, noCounterpart, noCounterpart, noCounterpart, 7, 6,
	noCounterpart, noCounterpart, 8, 8, 8, 8, 24, 24, 24, 24,
}

// pointerTo4 is the way back (figure 6).
var pointerTo4 = [header6Len]uint8{
	0, 1, noCounterpart, noCounterpart, 2, 2, 9, 8,
	12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
}

// errorTo6 finds the ICMPv6 counterpart of an ICMPv4 error, but for the MTU of a Packet
// Too Big, which stays as it was received.
func errorTo6(m message) (message, bool) {
	switch m.kind {
	case unreachable4:
		switch {
		case m.code == protoUnreach4:
			return message{paramProblem6, unknownNext6, nextHeaderAt6}, true
		case m.code == fragNeeded4:
			return message{packetTooBig6, 0, m.rest & 0xffff}, true
		case int(m.code) < len(unreachableTo6) && unreachableTo6[m.code] != noCounterpart:
			return message{unreachable6, unreachableTo6[m.code], 0}, true
		}
	case timeExceeded4:
		return message{timeExceeded6, m.code, 0}, true
	case paramProblem4:
		pointer := m.rest >> 24
		if (m.code == 0 || m.code == 2) && pointer < header4Len && pointerTo6[pointer] != noCounterpart {
			return message{paramProblem6, 0, uint32(pointerTo6[pointer])}, true
		}
	}
	return message{}, false
}

// errorTo4 finds the ICMPv4 counterpart of an ICMPv6 error, but for the MTU.
func errorTo4(m message) (message, bool) {
	switch m.kind {
	case unreachable6:
		if int(m.code) < len(unreachableTo4) {
			return message{unreachable4, unreachableTo4[m.code], 0}, true
		}
	case packetTooBig6:
		return message{unreachable4, fragNeeded4, m.rest}, true
	case timeExceeded6:
		return message{timeExceeded4, m.code, 0}, true
	case paramProblem6:
		if m.code == unknownNext6 {
			return message{unreachable4, protoUnreach4, 0}, true
		}
		if m.code == 0 && m.rest < header6Len && pointerTo4[m.rest] != noCounterpart {
			return message{paramProblem4, 0, uint32(pointerTo4[m.rest]) << 24}, true
		}
	}
	return message{}, false
}

// plateaus are the likely MTUs of RFC 1191, section 7.1.
var plateaus = [...]int{65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68}

// plateau guesses the MTU that a packet of size bytes did not fit.
func plateau(size int) int {
	for _, p := range plateaus {
		if p < size {
			return p
		}
	}
	return plateaus[len(plateaus)-1]
}
