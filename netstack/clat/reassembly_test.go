package clat

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// piece4 and piece6 make a fragment of an ICMP message.
func piece4(id uint16, offset int, more bool, payload []byte) []byte {
	p := make([]byte, 20, 20+len(payload))
	p[0], p[8], p[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(p[4:], id)
	frag := uint16(offset / 8)
	if more {
		frag |= 0x2000
	}
	binary.BigEndian.PutUint16(p[6:], frag)
	copy(p[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	return append(p, payload...)
}

func piece6(id uint32, offset int, more bool, payload []byte) []byte {
	p := make([]byte, 48, 48+len(payload))
	p[0], p[6], p[7] = 0x60, 44, 64
	binary.BigEndian.PutUint16(p[4:], uint16(8+len(payload)))
	a, b := netip.MustParseAddr("fd00::1").As16(), netip.MustParseAddr("fd00::2").As16()
	copy(p[8:], a[:])
	copy(p[24:], b[:])
	p[40] = 58
	frag := uint16(offset)
	if more {
		frag |= 1
	}
	binary.BigEndian.PutUint16(p[42:], frag)
	binary.BigEndian.PutUint32(p[44:], id)
	return append(p, payload...)
}

// TestReassembly: whatever the cuts and the order, the last piece brings the message.
func TestReassembly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "six")
		payload := rapid.SliceOfN(rapid.Byte(), 1, maxPayload).Draw(t, "payload")
		step := rapid.IntRange(1, 500).Draw(t, "step") * 8
		var pieces [][]byte
		for at := 0; at < len(payload); at += step {
			end := min(at+step, len(payload))
			if six {
				pieces = append(pieces, piece6(7, at, end < len(payload), payload[at:end]))
			} else {
				pieces = append(pieces, piece4(7, at, end < len(payload), payload[at:end]))
			}
		}
		r := newReassembler(time.Now)
		pieces = rapid.Permutation(pieces).Draw(t, "order")
		for i, p := range pieces {
			whole := r.add(p)
			if i < len(pieces)-1 {
				if whole != nil {
					t.Fatalf("a message of %d pieces was whole after %d", len(pieces), i+1)
				}
				continue
			}
			want := piece4(7, 0, false, payload)
			binary.BigEndian.PutUint16(want[10:], headerChecksum(want[:20]))
			if six {
				want = piece6(7, 0, false, payload)
			}
			if !bytes.Equal(whole, want) {
				t.Fatalf("the message of %d bytes came together as %d bytes", len(want), len(whole))
			}
		}
		if len(r.open) != 0 {
			t.Fatal("a whole message is still being put together")
		}
	})
}

// TestReassemblyRefuses: a message with pieces that don't fit is given up as a whole.
func TestReassemblyRefuses(t *testing.T) {
	b := make([]byte, 32)
	for name, pieces := range map[string][][]byte{
		"overlap":                     {piece4(1, 0, true, b), piece4(1, 24, true, b)},
		"the same twice":              {piece4(1, 0, true, b), piece4(1, 0, true, b)},
		"two ends":                    {piece4(1, 64, false, b), piece4(1, 128, false, b)},
		"more behind the end":         {piece4(1, 64, false, b), piece4(1, 128, true, b)},
		"an end before what is there": {piece4(1, 64, true, b), piece4(1, 32, false, b)},
		"an uneven piece":             {piece4(1, 0, true, b[:30])},
		"an empty piece":              {piece4(1, 0, true, nil)},
		"too long":                    {piece4(1, 65504, false, b)},
	} {
		r := newReassembler(time.Now)
		for _, p := range pieces {
			if r.add(p) != nil {
				t.Errorf("%s: a message came together", name)
			}
		}
		if len(r.open) != 0 {
			t.Errorf("%s: the message is still open", name)
		}
	}
}

// TestReassemblyIsBounded: there is a limit to the messages under way, and to how long
// one takes.
func TestReassemblyIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newReassembler(func() time.Time { return now })
	for i := range 2 * maxOpen {
		r.add(piece4(uint16(i), 0, true, make([]byte, 8)))
	}
	if len(r.open) != maxOpen {
		t.Errorf("%d messages are under way, want %d", len(r.open), maxOpen)
	}
	now = now.Add(reassemblyLimit + 1)
	if r.add(piece4(0, 8, false, make([]byte, 8))) != nil || len(r.open) != 1 {
		t.Errorf("an old piece was used; %d messages are under way, want 1", len(r.open))
	}
	if whole := r.add(piece4(0, 0, true, make([]byte, 8))); len(whole) != 36 {
		t.Errorf("the message came together as %x", whole)
	}
}

// TestForeignHeaderOrder: a fragment header that is not the first is left alone.
func TestForeignHeaderOrder(t *testing.T) {
	p := piece6(1, 0, true, make([]byte, 8))
	p[6] = 60
	if r := newReassembler(time.Now); r.add(p) != nil || len(r.open) != 0 {
		t.Error("it was taken")
	}
}

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(func() time.Time { return now })
	spend := func() (n int) {
		for l.allow() {
			n++
		}
		return n
	}
	got := []int{spend()}
	now = now.Add(100 * time.Millisecond)
	got = append(got, spend())
	now = now.Add(time.Hour)
	got = append(got, spend())
	if want := []int{errorBurst, errorsPerSecond / 10, errorBurst}; !slices.Equal(got, want) {
		t.Errorf("%v errors were allowed, want %v", got, want)
	}
}
