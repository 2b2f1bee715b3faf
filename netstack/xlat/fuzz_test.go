package xlat

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// fuzzConfigs are the configurations that fuzzed packets go through: between them they
// reach every branch.
func fuzzConfigs() []Config {
	pod := Mapping{IPv4: netip.MustParsePrefix("100.64.0.0/24"), IPv6: netip.MustParsePrefix("fd00:1::/112")}
	plain := testConfig()
	mapped := testConfig()
	mapped.Mappings = []Mapping{pod}
	mapped.ComputeUDPChecksum = true
	small := mapped
	small.MTU4, small.MTU6, small.LowestMTU6 = 68, 1280, 1400
	small.ErrorSources4, small.ErrorSources6 = netip.MustParsePrefix("203.0.113.0/28"), netip.MustParsePrefix("fd00:2::/64")
	short := Config{Prefix: netip.MustParsePrefix("2001:db8::/32"), Hairpin: HairpinSimple, Mappings: mapped.Mappings}
	return []Config{plain, mapped, small, short}
}

// repair makes lengths and checksums right, so that the fuzzer gets past them.
func repair(p []byte) []byte {
	p = bytes.Clone(p)
	if len(p) < 40 {
		return p
	}
	if p[0]>>4 == 6 {
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
		return p
	}
	ihl := max(5, int(p[0]&15)) * 4
	if ihl > len(p) {
		ihl = 20
	}
	p[0] = 4<<4 | byte(ihl/4)
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], slowChecksum(p[:ihl]))
	if p[9] == protoICMP4 && len(p) >= ihl+4 {
		p[ihl+2], p[ihl+3] = 0, 0
		binary.BigEndian.PutUint16(p[ihl+2:], slowChecksum(p[ihl:]))
	}
	return p
}

// FuzzTranslate checks that no packet makes the translator panic, and that whatever it
// emits is well-formed.
func FuzzTranslate(f *testing.F) {
	pod4, pod6 := netip.MustParseAddr("100.64.0.7"), netip.MustParseAddr("fd00:1::7")
	far4, far6 := netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("64:ff9b:1::808:808")
	for _, proto := range []uint8{protoTCP, protoUDP, protoICMP4, 50} {
		f.Add(ends{far4, pod4}.packet(proto, 100))
		f.Add(ends{far4, pod4}.wrap4(proto, pattern(1480), 0x2000))
		f.Add(ends{pod4, far4}.wrap4(proto, pattern(8), 0x2003))
	}
	for _, proto := range []uint8{protoTCP, protoUDP, protoICMP6, protoFragment, protoRouting, protoDstOpts} {
		f.Add(ends{pod6, far6}.packet(proto, 1400))
		f.Add(ends{far6, pod6}.packet(proto, 100))
	}
	e := ends{far6, pod6}
	inner := append([]byte{unreachable6, 4, 0, 0, 0, 0, 0, 0}, ends{pod6, far6}.packet(protoUDP, 300)...)
	binary.BigEndian.PutUint16(inner[2:], slowChecksum(e.pseudo(protoICMP6, len(inner)), inner))
	f.Add(e.wrap(protoICMP6, inner))
	inner = append([]byte{unreachable4, 4, 0, 0, 0, 32, 0, 0}, ends{pod4, far4}.packet(protoUDP, 300)...)
	f.Add(repair(ends{far4, pod4}.wrap(protoICMP4, inner)))

	var translators []*Translator
	for _, cfg := range fuzzConfigs() {
		tr, err := New(cfg)
		if err != nil {
			f.Fatal(err)
		}
		translators = append(translators, tr)
	}
	out := NewOut(3, 0, 7)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 4096 {
			return
		}
		for i, tr := range translators {
			for _, p := range [][]byte{data, repair(data)} {
				out.Reset()
				r := tr.Translate(out, p)
				if r.Verdict == Dropped && p[0]>>4 != 4 && p[0]>>4 != 6 {
					continue
				}
				if err := checkResult(p, r, out); err != nil {
					t.Errorf("configuration %d: %v\npacket %x", i, err, p)
				}
				out.Reset()
				tr.TranslateSuper(out, p, 20, 500)
			}
		}
	})
}
