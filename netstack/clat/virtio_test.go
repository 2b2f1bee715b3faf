package clat

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVirtioHeader(t *testing.T) {
	b := []byte{1, 2, 3, 0, 4, 0, 5, 0, 6, 0}
	out := make([]byte, virtioLen)
	readVirtio(b).put(out)
	if !bytes.Equal(out, b) {
		t.Errorf("%x became %x", b, out)
	}
}

// superpacket makes a TCP superpacket of either family with a virtio header.
func superpacket(family byte, change func(*virtio)) []byte {
	at := map[byte]uint16{4: 20, 6: 40}[family]
	h := virtio{
		flags: unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, headers: at + 32, segment: 1400, checksumAt: at, checksumIn: 16,
		gsoType: map[byte]uint8{4: unix.VIRTIO_NET_HDR_GSO_TCPV4, 6: unix.VIRTIO_NET_HDR_GSO_TCPV6}[family],
	}
	if change != nil {
		change(&h)
	}
	b := make([]byte, virtioLen+int(at)+32+5000)
	h.put(b)
	b[virtioLen] = family << 4
	b[virtioLen+int(at)+12] = 8 << 4
	return b
}

// TestAdmitSuperpackets: what the kernel must do to the packet that a superpacket
// becomes, and which superpackets make no sense.
func TestAdmitSuperpackets(t *testing.T) {
	for _, family := range []byte{4, 6} {
		packet, off, ok := admit(superpacket(family, nil))
		if !ok || off.transport != 32 {
			t.Fatalf("IPv%d: %+v %v", family, off, ok)
		}
		packet[0] = (10 - family) << 4
		at := map[byte]uint16{4: 40, 6: 20}[family]
		moved := off.moved(packet, off.transport)
		_, other, _ := admit(superpacket(10-family, nil))
		if moved != other.virtio || moved.checksumAt != at {
			t.Errorf("IPv%d: the header became %+v, want %+v", family, moved, other.virtio)
		}
	}
	for name, change := range map[string]func(*virtio){
		"no checksum to complete": func(h *virtio) { h.flags = 0 },
		"no segment size":         func(h *virtio) { h.segment = 0 },
		"an unknown kind":         func(h *virtio) { h.gsoType = 3 },
		"a header beyond the end": func(h *virtio) { h.checksumAt = 5060 },
		"not a header":            func(h *virtio) { h.checksumAt = 60 },
	} {
		if _, _, ok := admit(superpacket(4, change)); ok {
			t.Errorf("%s: admitted", name)
		}
	}
	_, off, ok := admit(superpacket(4, func(h *virtio) { h.gsoType |= unix.VIRTIO_NET_HDR_GSO_ECN }))
	if want := uint8(unix.VIRTIO_NET_HDR_GSO_TCPV6 | unix.VIRTIO_NET_HDR_GSO_ECN); !ok || off.moved([]byte{0x60}, 32).gsoType != want {
		t.Error("congestion notification was lost")
	}
}

// TestCompleteChecksum compares with a checksum made by hand.
func TestCompleteChecksum(t *testing.T) {
	const before = 0x1234 + 8 // the sum so far, and the length below
	for payload, want := range map[string]uint16{
		"":                        ^uint16(before),
		"a":                       ^uint16(before + 'a'<<8),
		"ab":                      ^uint16(before + 'a'<<8 + 'b'),
		strings.Repeat("\xff", 9): ^uint16((before+0xff00)&0xffff + 1), // with the carry
		"\xed\xc3":                0xffff,                              // it computes to zero
	} {
		b := append(make([]byte, virtioLen+20), 0, 0, 0, 0, 0, 8, 0x12, 0x34)
		b = append(b, payload...)
		virtio{flags: unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, checksumAt: 20, checksumIn: 6}.put(b)
		packet, off, ok := admit(b)
		if got := binary.BigEndian.Uint16(packet[26:]); !ok || off.transport != 0 || got != want {
			t.Errorf("%q: %#04x %v, want %#04x", payload, got, ok, want)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, virtioLen)} {
		if _, _, ok := admit(b); ok {
			t.Errorf("%d bytes are a packet", len(b))
		}
	}
	b := make([]byte, virtioLen+20)
	virtio{flags: unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, checksumAt: 15, checksumIn: 6}.put(b)
	if _, _, ok := admit(b); ok {
		t.Error("a checksum beyond the packet's end was completed")
	}
}

func TestConfigIsChecked(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	prefix := netip.MustParsePrefix
	for want, cfg := range map[string]Config{
		"no logger":             {},
		"must be an IPv6 /96":   {Log: log, Prefix: prefix("64:ff9b:1::/64")},
		"choose another":        {Log: log, Prefix: between},
		"an IPv4 /20 or larger": {Log: log, IPv4: prefix("10.0.0.0/21")},
		"MTU 1279":              {Log: log, MTU: 1279},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	d, err := New(Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for want, pod := range map[string]Pod{
		"pod \"../x\"":            {ID: "../x", Address: netip.MustParseAddr("fd00::1")},
		"must be an IPv6 address": {ID: "x", Address: netip.MustParseAddr("10.0.0.1")},
	} {
		if err := d.Add(pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
