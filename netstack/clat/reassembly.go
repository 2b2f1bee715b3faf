package clat

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Limits of reassembly. Only ICMP messages are put together, so few are open at a time.
const (
	maxOpen         = 64               // messages at a time
	maxPayload      = 65535 - 20       // of a message: what fits in an IPv4 packet
	reassemblyLimit = 10 * time.Second // from the first fragment
	blocks          = (maxPayload + 7) / 8
)

// fragment is one piece of a message.
type fragment struct {
	key     fragmentKey
	header  []byte // the IP header, without what comes behind its fixed part
	offset  int
	more    bool
	payload []byte
}

type fragmentKey struct {
	src, dst netip.Addr
	id       uint32
}

// message is a message under reassembly.
type message struct {
	deadline time.Time
	header   []byte // of the piece at offset 0
	payload  []byte
	total    int // -1 until the last piece is here
	have     int // blocks
	seen     [(blocks + 63) / 64]uint64
}

// reassembler joins fragments of ICMP messages. It belongs to one goroutine.
type reassembler struct {
	open map[fragmentKey]*message
	now  func() time.Time
}

func newReassembler(now func() time.Time) *reassembler {
	return &reassembler{open: make(map[fragmentKey]*message), now: now}
}

// add takes in a fragment. When it completes its message, the message is returned as a
// packet that says it may be fragmented: nil otherwise.
func (r *reassembler) add(packet []byte) []byte {
	f, ok := parseFragment(packet)
	if !ok {
		return nil
	}
	m := r.find(f.key)
	if m == nil {
		return nil
	}
	if !m.put(f) {
		delete(r.open, f.key) // overlapping or contradicting pieces (RFC 5722)
		return nil
	}
	if m.total < 0 || m.header == nil || m.have < (m.total+7)/8 {
		return nil
	}
	delete(r.open, f.key)
	return m.packet(f.key.id)
}

// find returns the message of a key, or a new one if there is room.
func (r *reassembler) find(k fragmentKey) *message {
	now := r.now()
	for key, m := range r.open {
		if now.After(m.deadline) {
			delete(r.open, key)
		}
	}
	m := r.open[k]
	if m == nil && len(r.open) < maxOpen {
		m = &message{total: -1, deadline: now.Add(reassemblyLimit)}
		r.open[k] = m
	}
	return m
}

// put stores a piece, and is false if it does not fit the others.
func (m *message) put(f fragment) bool {
	end := f.offset + len(f.payload)
	switch {
	case end > maxPayload, f.more && len(f.payload)%8 != 0, len(f.payload) == 0:
		return false
	case !f.more && m.total >= 0, m.total >= 0 && end > m.total, !f.more && end < len(m.payload):
		return false
	}
	if !f.more {
		m.total = end
	}
	for b := f.offset / 8; b < (end+7)/8; b++ {
		if m.seen[b/64]&(1<<(b%64)) != 0 {
			return false
		}
		m.seen[b/64] |= 1 << (b % 64)
		m.have++
	}
	if end > len(m.payload) {
		m.payload = append(m.payload, make([]byte, end-len(m.payload))...)
	}
	copy(m.payload[f.offset:], f.payload)
	if f.offset == 0 {
		m.header = append([]byte(nil), f.header...)
	}
	return true
}

// packet builds the whole packet: in IPv4 without the don't-fragment flag, in IPv6 with
// a fragment header that says it is the only piece.
func (m *message) packet(id uint32) []byte {
	if m.header[0]>>4 == 4 {
		p := append(m.header, m.payload...)
		p[0] = 0x45
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[6:], 0)
		binary.BigEndian.PutUint16(p[10:], 0)
		binary.BigEndian.PutUint16(p[10:], headerChecksum(p[:20]))
		return p
	}
	p := append(m.header, m.header[6], 0, 0, 0)
	p = binary.BigEndian.AppendUint32(p, id)
	p = append(p, m.payload...)
	p[6] = 44
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
	return p
}

func headerChecksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// parseFragment reads a packet that the translator has found to be a fragment, so its
// lengths are known to be right. IPv6 fragments are taken only with the fragment header
// in the first place: the kernel sends nothing else.
func parseFragment(p []byte) (f fragment, ok bool) {
	if p[0]>>4 == 4 {
		ihl := int(p[0]&15) * 4
		frag := binary.BigEndian.Uint16(p[6:])
		src, _ := netip.AddrFromSlice(p[12:16])
		dst, _ := netip.AddrFromSlice(p[16:20])
		return fragment{
			key:    fragmentKey{src, dst, uint32(binary.BigEndian.Uint16(p[4:]))},
			header: p[:20], offset: int(frag&0x1fff) * 8, more: frag&0x2000 != 0,
			payload: p[ihl:binary.BigEndian.Uint16(p[2:])],
		}, true
	}
	if p[6] != 44 {
		return f, false
	}
	frag := binary.BigEndian.Uint16(p[42:])
	src, _ := netip.AddrFromSlice(p[8:24])
	dst, _ := netip.AddrFromSlice(p[24:40])
	f = fragment{
		key:    fragmentKey{src, dst, binary.BigEndian.Uint32(p[44:])},
		header: append([]byte(nil), p[:40]...), offset: int(frag &^ 7), more: frag&1 != 0,
		payload: p[48 : 40+int(binary.BigEndian.Uint16(p[4:]))],
	}
	f.header[6] = p[40]
	return f, true
}
