package clat

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// This file makes the packets that both ways are given.

// draw makes a right packet.
func draw(r *rand.Rand, src, dst netip.Addr) []byte {
	protocol := []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}[r.IntN(3)]
	size := 28 + r.IntN(120)
	if r.IntN(3) == 0 {
		size = 1400 + r.IntN(81)
	} else if r.IntN(4) == 0 {
		size = 1255 + r.IntN(10)
	}
	if protocol == unix.IPPROTO_TCP {
		size = max(size, 40)
	}
	payload := make([]byte, size-20)
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	ttl := byte(3 + r.IntN(253))
	field := 2
	switch protocol {
	case unix.IPPROTO_TCP:
		payload[12], field = 0x50, 16
	case unix.IPPROTO_UDP:
		binary.BigEndian.PutUint16(payload[4:], uint16(len(payload)))
		field = 6
	case unix.IPPROTO_ICMP:
		payload[0], payload[1] = byte(r.IntN(2)*8), 0
	}
	if src.Is6() {
		if protocol == unix.IPPROTO_ICMP {
			protocol, payload[0] = unix.IPPROTO_ICMPV6, 128+payload[0]/8
		}
		return finish(protocol, field, header6For(r, src, dst, protocol, ttl, payload), 40)
	}
	return finish(protocol, field, header4For(r, src, dst, protocol, ttl, payload), 20)
}

func header6For(r *rand.Rand, src, dst netip.Addr, protocol, ttl byte, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	binary.BigEndian.PutUint32(b, 6<<28|r.Uint32()>>4)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6], b[7] = protocol, ttl
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(b, payload...)
}

func header4For(r *rand.Rand, src, dst netip.Addr, protocol, ttl byte, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[1], b[8], b[9] = 0x45, byte(r.Uint32()), ttl, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[4:], uint16(r.Uint32()))
	b[6] = byte(r.IntN(2)) << 6
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	seal(b)
	return append(b, payload...)
}

// seal makes the checksum of an IPv4 header right.
func seal(b []byte) {
	clear(b[10:12])
	virtio{checksumAt: 0, checksumIn: 10}.complete(b[:20])
}

// finish makes the transport checksum right.
func finish(protocol byte, field int, packet []byte, header int) []byte {
	seed := packet[12:20]
	if header == 40 {
		seed = packet[8:40]
	}
	if protocol == unix.IPPROTO_ICMP {
		seed = nil
	}
	message := bytes.Clone(packet[header:])
	clear(message[field : field+2])
	pad := len(message) % 2
	whole := append(message, make([]byte, pad)...)
	whole = append(whole, seed...)
	if seed != nil {
		whole = binary.BigEndian.AppendUint32(whole, uint32(protocol))
		whole = binary.BigEndian.AppendUint32(whole, uint32(len(packet)-header))
	}
	virtio{checksumIn: uint16(field)}.complete(whole)
	copy(packet[header+field:], whole[field:field+2])
	return packet
}

// spoil makes every second packet one that is not simple, or wrong, and tells whether it
// is still simple.
func spoil(r *rand.Rand, packet []byte) bool {
	if r.IntN(2) == 0 {
		return true
	}
	header, limit := 20, 8
	if packet[0]>>4 == 6 {
		header, limit = 40, 7
	}
	switch r.IntN(5) {
	case 0: // on its last hops
		packet[limit] = byte(r.IntN(4))
	case 1: // no checksum
		clear(packet[header+6 : header+8])
	case 2: // any byte of the headers
		packet[r.IntN(header)] ^= 1 << r.IntN(8)
	case 3:
		packet[header+r.IntN(8)] ^= 1 << r.IntN(8)
	case 4: // another protocol, type, flag or address
		at := []int{6, 7, header, header - 2, header - 1}[r.IntN(5)]
		packet[at] = byte(r.Uint32())
	}
	if header == 20 && r.IntN(4) > 0 {
		seal(packet)
	}
	return false
}

func vectorPackets(t *testing.T, files []string) (packets [][]byte) {
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var v struct{ In string }
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			b, err := hex.DecodeString(v.In)
			if err != nil || len(b) == 0 || len(b) > 3000 {
				continue
			}
			packets = append(packets, b)
		}
	}
	return packets
}
