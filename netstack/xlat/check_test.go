package xlat

import (
	"encoding/binary"
	"fmt"
)

// The checker takes a packet apart by means of its own and says what is wrong with it.

// shape is what the checker found in a packet.
type shape struct {
	family    int
	proto     uint8
	hops      uint8
	mf        bool
	offset    int
	id        uint32
	payload   []byte
	transport bool // the transport checksum was there and is right
}

// inspect checks the lengths and the header checksum of a packet.
func inspect(p []byte) (shape, error) {
	if len(p) < 20 {
		return shape{}, fmt.Errorf("%d bytes are no packet", len(p))
	}
	var s shape
	var pseudo []byte
	var err error
	if p[0]>>4 == 4 {
		s, pseudo, err = inspect4(p)
	} else {
		s, pseudo, err = inspect6(p)
	}
	if err == nil && s.offset == 0 && !s.mf {
		s.transport = s.verify(pseudo)
	}
	return s, err
}

func inspect4(p []byte) (shape, []byte, error) {
	if p[0] != 0x45 {
		return shape{}, nil, fmt.Errorf("first byte %#x", p[0])
	}
	if n := int(binary.BigEndian.Uint16(p[2:])); n != len(p) {
		return shape{}, nil, fmt.Errorf("total length %d of %d bytes", n, len(p))
	}
	if c := slowChecksum(p[:20]); c != 0 {
		return shape{}, nil, fmt.Errorf("header checksum off by %#x", c)
	}
	f := binary.BigEndian.Uint16(p[6:])
	s := shape{family: 4, proto: p[9], hops: p[8], mf: f&0x2000 != 0, offset: int(f&0x1fff) * 8,
		id: uint32(binary.BigEndian.Uint16(p[4:])), payload: p[20:]}
	return s, p[12:20], nil
}

func inspect6(p []byte) (shape, []byte, error) {
	if len(p) < 40 || p[0]>>4 != 6 {
		return shape{}, nil, fmt.Errorf("no IPv6 header: %x", p[:20])
	}
	if n := int(binary.BigEndian.Uint16(p[4:])); n != len(p)-40 {
		return shape{}, nil, fmt.Errorf("payload length %d of %d bytes", n, len(p)-40)
	}
	s := shape{family: 6, proto: p[6], hops: p[7], payload: p[40:]}
	if s.proto == protoFragment && len(s.payload) >= 8 {
		f := binary.BigEndian.Uint16(s.payload[2:])
		s.mf, s.offset = f&1 != 0, int(f&^7)
		s.id = binary.BigEndian.Uint32(s.payload[4:])
		s.proto, s.payload = s.payload[0], s.payload[8:]
	}
	return s, p[8:40], nil
}

// verify tells whether the payload is a whole message with the right checksum.
func (s *shape) verify(addresses []byte) bool {
	n := len(s.payload)
	pseudo := binary.BigEndian.AppendUint32(append([]byte(nil), addresses...), uint32(s.proto))
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(n))
	switch s.proto {
	case protoTCP:
		return n >= 20 && slowChecksum(pseudo, s.payload) == 0
	case protoUDP:
		return n >= 8 && s.payload[6]|s.payload[7] != 0 &&
			int(binary.BigEndian.Uint16(s.payload[4:])) == n && slowChecksum(pseudo, s.payload) == 0
	case protoICMP4:
		return s.family == 4 && n >= 8 && slowChecksum(s.payload) == 0
	case protoICMP6:
		return s.family == 6 && n >= 8 && slowChecksum(pseudo, s.payload) == 0
	}
	return false
}

// icmpError tells whether the packet is a whole ICMP error.
func (s *shape) icmpError() bool {
	if len(s.payload) == 0 || s.offset > 0 {
		return false
	}
	if s.family == 4 {
		return s.proto == protoICMP4 && isError4(s.payload[0])
	}
	return s.proto == protoICMP6 && s.payload[0] < 128
}

// checkResult checks what a translation of in emitted.
func checkResult(in []byte, r Result, out *Out) error {
	before, inErr := inspect(in)
	family := 10 - int(in[0]>>4)
	switch r.Verdict {
	case Dropped, Incomplete:
		if out.Len() != 0 || r.Reason == None {
			return fmt.Errorf("%v with %d packets", r, out.Len())
		}
	case Answered:
		if out.Len() != 1 || r.Reason == None {
			return fmt.Errorf("%v with %d packets", r, out.Len())
		}
		family = 10 - family
	case Hairpinned:
		family = 6
	}
	next := 0
	for i := range out.Len() {
		s, err := inspect(out.Packet(i))
		switch {
		case err != nil:
			return fmt.Errorf("%v, packet %d: %w", r, i, err)
		case s.family != family:
			return fmt.Errorf("%v, packet %d: family %d", r, i, s.family)
		case r.Verdict == Answered && !(s.icmpError() && s.transport):
			return fmt.Errorf("%v: the answer is no valid ICMP error", r)
		case s.icmpError() && (!s.transport || len(out.Packet(i)) > map[int]int{4: 576, 6: 1280}[family]):
			return fmt.Errorf("%v: bad ICMP error of %d bytes", r, len(out.Packet(i)))
		case inErr == nil && before.transport && out.Len() == 1 && s.proto != 0 && !s.mf && !s.transport:
			return fmt.Errorf("%v: the transport checksum was right before", r)
		case r.Verdict == Translated && i > 0 && s.offset != next:
			return fmt.Errorf("fragment %d starts at %d, not at %d", i, s.offset, next)
		}
		next = s.offset + len(s.payload)
	}
	return nil
}
