package netstack

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

var (
	clusterID = []byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xff}
	machineID = []byte{0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x08}
	cluster   = ClusterPrefix(clusterID)
	own       = MachinePrefix(cluster, machineID)
)

func TestPrefixesShowTheirIDs(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{cluster.String(), "fd12:3456:789a::/48"},
		{own.String(), "fd12:3456:789a:a1b2:c3d4:e5f6::/96"},
		{MachineAddress(own).String(), "fd12:3456:789a:a1b2:c3d4:e5f6:0:1"},
		{LinkLocal(own).String(), "fe80::153:a1b2:c3d4:e5f6"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestRandomAddressIsInThePrefixAndNotReserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SampledFrom([]int{48, 56, 64, 80, 96, 104}).Draw(t, "bits")
		prefix := netip.PrefixFrom(own.Addr(), bits).Masked()
		a := RandomAddress(prefix, func() uint64 { return rapid.Uint64().Draw(t, "random") })
		if !prefix.Contains(a) || isReserved(prefix, a) {
			t.Fatalf("%s drawn from %s", a, prefix)
		}
	})
}

func TestRandomAddressReachesBothEnds(t *testing.T) {
	for _, bits := range []int{64, 96} {
		prefix := netip.PrefixFrom(own.Addr(), bits).Masked()
		first := RandomAddress(prefix, func() uint64 { return 0 })
		if isReserved(prefix, first) || !isReserved(prefix, first.Prev()) {
			t.Errorf("/%d: the lowest address drawn is %s", bits, first)
		}
		span := uint64(1)<<(128-bits) - reservedLow - reservedHigh // also right for /64, by wrapping
		last := RandomAddress(prefix, func() uint64 { return span - 1 })
		if isReserved(prefix, last) || !isReserved(prefix, last.Next()) {
			t.Errorf("/%d: the highest address drawn is %s", bits, last)
		}
	}
}

func TestRandomAddressNeedsARoomyIPv6Prefix(t *testing.T) {
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/112")} {
		if a := RandomAddress(p, func() uint64 { return 7 }); a.IsValid() {
			t.Errorf("drew %s from %q", a, p)
		}
	}
}

// isReserved reports whether RandomAddress would never draw the address of prefix.
func isReserved(prefix netip.Prefix, a netip.Addr) bool {
	if !prefix.Contains(a) {
		return false
	}
	b := a.As16()
	low := binary.BigEndian.Uint64(b[8:])
	free := min(128-prefix.Bits(), 64)
	mask := ^uint64(0) >> (64 - free)
	return low&mask < reservedLow || low&mask > mask-reservedHigh
}
