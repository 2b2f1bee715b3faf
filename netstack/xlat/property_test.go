package xlat

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// mappedPair is a translator with a mapped pod, and the ends of packets between the pod
// and the world in both families.
func mappedPair(t testing.TB, change func(*Config)) (tr *Translator, e4, e6 ends) {
	cfg := testConfig()
	pod4, pod6 := netip.MustParseAddr("100.64.0.7"), netip.MustParseAddr("fd00:1::7")
	cfg.Mappings = []Mapping{{IPv4: netip.PrefixFrom(pod4, 32), IPv6: netip.PrefixFrom(pod6, 128)}}
	cfg.ComputeUDPChecksum = true
	if change != nil {
		change(&cfg)
	}
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr, ends{pod4, netip.MustParseAddr("8.8.8.8")}, ends{pod6, netip.MustParseAddr("64:ff9b:1::808:808")}
}

func icmpOf(e ends) uint8 {
	if e.src.Is4() {
		return protoICMP4
	}
	return protoICMP6
}

// translateOne wants exactly one packet out.
func translateOne(t *rapid.T, tr *Translator, p []byte) []byte {
	out := NewOut(0, 0, 0)
	if r := tr.Translate(out, p); r.Verdict != Translated || out.Len() != 1 {
		t.Fatalf("%v, %d packets", r, out.Len())
	}
	return out.Packet(0)
}

// TestThereAndBack: an unfragmented packet that goes through the translator twice comes
// back as it was, but for the hop limit (two less) and, in IPv4, the identification, the
// don't-fragment flag of packets up to 1,260 bytes, and the header checksum over these.
func TestThereAndBack(t *testing.T) {
	tr, e4, e6 := mappedPair(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom([]ends{e4, e6}).Draw(t, "ends")
		proto := rapid.SampledFrom([]uint8{protoTCP, protoUDP, icmpOf(e), 132}).Draw(t, "protocol")
		payload := rapid.SliceOfN(rapid.Byte(), 20, 1400).Draw(t, "payload")
		p := e.wrap(proto, e.transport(proto, payload))
		want := bytes.Clone(p)
		got := bytes.Clone(translateOne(t, tr, translateOne(t, tr, p)))
		if e.src.Is4() {
			for _, i := range []int{4, 5, 6, 8, 10, 11} {
				got[i], want[i] = 0, 0
			}
		} else {
			got[7], want[7] = 0, 0
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
		if s, err := inspect(p); err != nil || proto != 132 && !s.transport {
			t.Fatalf("the packet was wrong from the start: %v", err)
		}
	})
}

// TestFragmentsAddUp: whatever is cut, by the sender or by us, the pieces are those of
// the same datagram, in order, without gap, and none is too large.
func TestFragmentsAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.IntRange(1280, 1500).Draw(rt, "mtu")
		tr, e4, e6 := mappedPair(t, func(c *Config) { c.LowestMTU6, c.MTU4 = mtu, mtu-700 })
		whole := e4.transport(protoUDP, rapid.SliceOfN(rapid.Byte(), 8, 9000).Draw(rt, "datagram"))
		want := ends{e6.src, e6.dst}.transport(protoUDP, bytes.Clone(whole))
		step := rapid.IntRange(8, 400).Draw(rt, "piece") * 8
		out := NewOut(0, 0, 0)
		for at := 0; at < len(whole); at += step {
			piece := whole[at:min(at+step, len(whole))]
			frag := uint16(at / 8)
			if at+len(piece) < len(whole) {
				frag |= 0x2000
			}
			if r := tr.Translate(out, e4.wrap4(protoUDP, piece, frag)); r.Verdict != Translated {
				rt.Fatal(r)
			}
		}
		if got := addUp(rt, out, 6, mtu); !bytes.Equal(got, want) {
			rt.Fatalf("the datagram changed: %x, want %x", got, want)
		}
	})
}

// TestSmallPacketsAreFragmentable: an IPv6 packet that its sender need not make smaller
// arrives whole however small the IPv4 MTU is.
func TestSmallPacketsAreFragmentable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.IntRange(68, 1300).Draw(rt, "mtu")
		tr, e4, e6 := mappedPair(t, func(c *Config) { c.MTU4 = mtu })
		size := rapid.IntRange(28, 1260).Draw(rt, "size")
		out := NewOut(0, 0, 0)
		if r := tr.Translate(out, e6.packet(protoUDP, size)); r.Verdict != Translated {
			rt.Fatal(r)
		}
		want := e4.packet(protoUDP, size)[header4Len:]
		if got := addUp(rt, out, 4, mtu); !bytes.Equal(got, want) {
			rt.Fatalf("the datagram changed: %x, want %x", got, want)
		}
	})
}

// addUp checks that the packets are the pieces of one datagram, and joins them.
func addUp(t *rapid.T, out *Out, family, mtu int) []byte {
	var joined []byte
	for i := range out.Len() {
		s, err := inspect(out.Packet(i))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := inspect(out.Packet(0))
		last := i == out.Len()-1
		if s.family != family || s.id != first.id || s.offset != len(joined) || s.mf == last || len(out.Packet(i)) > mtu {
			t.Fatalf("piece %d of %d: %d bytes, %+v", i, out.Len(), len(out.Packet(i)), s)
		}
		joined = append(joined, s.payload...)
	}
	return joined
}

// TestSuperpackets: translating a superpacket and then cutting it gives what cutting it
// first gives. Completing the checksum stands for the cutting here.
func TestSuperpackets(t *testing.T) {
	tr, e4, e6 := mappedPair(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		from, to := e4, e6
		if rapid.Bool().Draw(t, "from6") {
			from, to = e6, e4
		}
		proto := rapid.SampledFrom([]uint8{protoTCP, protoUDP}).Draw(t, "protocol")
		at, headers := 16, 20
		if proto == protoUDP {
			at, headers = 6, 8
		}
		payload := from.transport(proto, rapid.SliceOfN(rapid.Byte(), 20, 40000).Draw(t, "payload"))
		binary.BigEndian.PutUint16(payload[at:], ^slowChecksum(from.pseudo(proto, len(payload))))
		out := NewOut(0, 0, 0)
		if r := tr.TranslateSuper(out, from.wrap(proto, payload), headers, 1400); r.Verdict != Translated || out.Len() != 1 {
			t.Fatalf("%v, %d packets", r, out.Len())
		}
		got, err := inspect(out.Packet(0))
		if err != nil {
			t.Fatal(err)
		}
		binary.BigEndian.PutUint16(got.payload[at:], slowChecksum(got.payload)) // what the device does
		if slowChecksum(to.pseudo(proto, len(payload)), got.payload) != 0 {
			t.Fatal("the completed checksum is wrong")
		}
		if !bytes.Equal(got.payload[headers:], payload[headers:]) {
			t.Fatal("the payload changed")
		}
	})
}

// TestSuperpacketTooBig: it is the segments that must fit, not the superpacket.
func TestSuperpacketTooBig(t *testing.T) {
	tr, e4, _ := mappedPair(t, nil)
	p := e4.wrap(protoTCP, e4.transport(protoTCP, pattern(20000)))
	for segment, want := range map[int]string{1440: "translated", 1441: "answered: too-big"} {
		if r := tr.TranslateSuper(NewOut(0, 0, 0), p, 20, segment); r.String() != want {
			t.Errorf("segments of %d bytes: %v, want %s", segment, r, want)
		}
	}
}
