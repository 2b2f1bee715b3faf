package xlat

import (
	"net/netip"
	"strings"
	"testing"
)

func TestConfigIsChecked(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		want   string // in the error
		change func(*Config)
	}{
		{"give a prefix or mappings", func(c *Config) { c.Prefix = netip.Prefix{} }},
		{"must be an IPv6 prefix", func(c *Config) { c.Prefix = prefix("10.0.0.0/8") }},
		{"the length must be 32", func(c *Config) { c.Prefix = prefix("2001:db8::/80") }},
		{"bits 64 to 71 must be zero", func(c *Config) { c.Prefix = prefix("2001:db8::100:0:0:0/96") }},
		{"the first must be an IPv4 prefix", func(c *Config) { c.Mappings = []Mapping{{prefix("fd00::/96"), prefix("fd00::/96")}} }},
		{"the second must be an IPv6 prefix", func(c *Config) { c.Mappings = []Mapping{{prefix("10.0.0.0/8"), prefix("10.0.0.0/8")}} }},
		{"too long to hold", func(c *Config) { c.Mappings = []Mapping{{prefix("10.0.0.0/8"), prefix("fd00::/112")}} }},
		{"mapped twice", func(c *Config) {
			c.Mappings = []Mapping{{prefix("10.0.0.0/24"), prefix("fd00::/112")}, {prefix("10.0.0.7/24"), prefix("fd01::/112")}}
		}},
		{"translator's IPv4 address", func(c *Config) { c.Translator4 = netip.MustParseAddr("fd00::1") }},
		{"translator's IPv6 address", func(c *Config) { c.Translator6 = netip.MustParseAddr("::ffff:1.2.3.4") }},
		{"IPv4 source of errors", func(c *Config) { c.ErrorSources4 = prefix("fd00::/64") }},
		{"IPv6 source of errors", func(c *Config) { c.ErrorSources6 = prefix("10.0.0.0/8") }},
		{"IPv4 MTU: 67", func(c *Config) { c.MTU4 = 67 }},
		{"IPv6 MTU: 1279", func(c *Config) { c.MTU6 = 1279 }},
		{"lowest IPv6 MTU: 1279", func(c *Config) { c.LowestMTU6 = 1279 }},
		{"between 1280 and 65535", func(c *Config) { c.MTU6 = 65536 }},
	} {
		cfg := testConfig()
		c.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	if _, err := New(Config{Prefix: prefix("64:ff9b::/96")}); err != nil {
		t.Errorf("a prefix alone is not enough: %v", err)
	}
}

// TestErrorSources: senders of errors that have no counterpart share a pool, each with
// one address of it for good (RFC 6791).
func TestErrorSources(t *testing.T) {
	pool4, pool6 := netip.MustParsePrefix("203.0.113.16/28"), netip.MustParsePrefix("fd00:5::/64")
	pod6, far4 := netip.MustParseAddr("fd00:1::7"), netip.MustParseAddr("8.8.8.8")
	tr, e4, e6 := mappedPair(t, func(c *Config) {
		c.Prefix = netip.MustParsePrefix("64:ff9b::/96") // so that private senders have no counterpart
		c.ErrorSources4, c.ErrorSources6 = pool4, pool6
	})
	seen := make(map[netip.Addr]bool)
	out := NewOut(0, 0, 0)
	for i := range 100 {
		router6 := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i)})
		inner := ends{netip.MustParseAddr("64:ff9b::808:808"), pod6}.packet(protoUDP, 100)
		e := ends{router6, netip.MustParseAddr("64:ff9b::808:808")}
		seen[errorSource(t, tr, out, e, protoICMP6, append([]byte{timeExceeded6, 0, 0, 0, 0, 0, 0, 0}, inner...), pool4)] = true

		router4 := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		inner = ends{e4.src, far4}.packet(protoUDP, 100)
		e = ends{router4, e4.src}
		seen[errorSource(t, tr, out, e, protoICMP4, append([]byte{timeExceeded4, 0, 0, 0, 0, 0, 0, 0}, inner...), pool6)] = true
	}
	if n := len(seen); n < 100+8 || e6.src != pod6 {
		t.Errorf("200 senders were shown with %d addresses", n)
	}
}

// errorSource translates an ICMP error twice, and returns the source, the same both
// times, which must lie in the pool.
func errorSource(t *testing.T, tr *Translator, out *Out, e ends, proto uint8, message []byte, pool netip.Prefix) netip.Addr {
	t.Helper()
	c := slowChecksum(e.pseudo(proto, len(message)), message)
	message[2], message[3] = byte(c>>8), byte(c)
	var found [2]netip.Addr
	for i := range found {
		out.Reset()
		if r := tr.Translate(out, e.wrap(proto, message)); r.Verdict != Translated {
			t.Fatalf("%v: %v", e.src, r)
		}
		p, at := out.Packet(0), 8
		if pool.Addr().Is4() {
			at = 12
		}
		found[i], _ = netip.AddrFromSlice(p[at : at+pool.Addr().BitLen()/8])
	}
	if found[0] != found[1] || !pool.Contains(found[0]) {
		t.Fatalf("%v is shown as %v and %v, want one address of %v", e.src, found[0], found[1], pool)
	}
	return found[0]
}

// TestIdentifications: packets that may be fragmented on their way differ in their
// identification, and those of one fragmented packet agree.
func TestIdentifications(t *testing.T) {
	tr, _, e6 := mappedPair(t, nil)
	out := NewOut(0, 0, 65534)
	seen := make(map[uint32]bool)
	for range 5 {
		if r := tr.Translate(out, e6.packet(protoUDP, 500)); r.Verdict != Translated {
			t.Fatal(r)
		}
	}
	for i := range out.Len() {
		s, err := inspect(out.Packet(i))
		if err != nil || seen[s.id] {
			t.Errorf("packet %d: identification %d again (%v)", i, s.id, err)
		}
		seen[s.id] = true
	}
}

// TestHeadroomAndReuse: packets stand behind the headroom, and their buffers are used
// again, also when a driver has taken them apart.
func TestHeadroomAndReuse(t *testing.T) {
	tr, e4, _ := mappedPair(t, nil)
	out := NewOut(10, 2048, 0)
	p := e4.packet(protoTCP, 100)
	translate := func() { tr.Translate(out, p) }
	translate()
	first := out.Buffers()[0]
	if len(first) != 10+120 || len(out.Packet(0)) != 120 {
		t.Fatalf("buffer of %d bytes, packet of %d", len(first), len(out.Packet(0)))
	}
	out.Buffers()[0] = first[:1]
	if n := testing.AllocsPerRun(100, func() { out.Reset(); translate() }); n != 0 {
		t.Errorf("%v allocations per packet", n)
	}
	if got := out.Buffers()[0]; &got[0] != &first[0] || len(got) != 130 {
		t.Error("the buffer was not used again")
	}
}

func TestMapAddresses(t *testing.T) {
	tr, e4, e6 := mappedPair(t, nil)
	for _, p := range [][2]netip.Addr{{e4.src, e6.src}, {e4.dst, e6.dst}} {
		if a, ok := tr.Map4(p[0]); !ok || a != p[1] {
			t.Errorf("%v: %v %v, want %v", p[0], a, ok, p[1])
		}
		if a, ok := tr.Map6(p[1]); !ok || a != p[0] {
			t.Errorf("%v: %v %v, want %v", p[1], a, ok, p[0])
		}
	}
	for _, a := range []netip.Addr{netip.MustParseAddr("2001:db8::1"), e4.src, {}} {
		if b, ok := tr.Map6(a); ok {
			t.Errorf("%v has the counterpart %v", a, b)
		}
	}
}
