package xlat

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchConfig is what a machine with 200 pods runs.
func benchConfig() Config {
	cfg := testConfig()
	for i := range 200 {
		pod := netip.AddrFrom16([16]byte{0: 0xfd, 1: 1, 14: byte(i >> 8), 15: byte(i)})
		local := netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)})
		cfg.Mappings = append(cfg.Mappings, Mapping{IPv4: netip.PrefixFrom(local, 32), IPv6: netip.PrefixFrom(pod, 128)})
	}
	return cfg
}

// BenchmarkTranslate measures one core's packets per second, by direction, protocol and
// size of the packet that comes in.
func BenchmarkTranslate(b *testing.B) {
	tr, err := New(benchConfig())
	if err != nil {
		b.Fatal(err)
	}
	in6, in4 := ends{netip.MustParseAddr("fd01::7"), netip.MustParseAddr("64:ff9b:1::808:808")},
		ends{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("100.64.0.7")}
	for _, size := range []int{64, 1400} {
		for _, proto := range []uint8{protoTCP, protoUDP} {
			for _, e := range []ends{in4, in6} {
				name := fmt.Sprintf("from%s/%s/%d", family(e.src), protoName(proto), size)
				packet := e.packet(proto, size)
				b.Run(name, func(b *testing.B) { benchmark(b, tr, packet) })
			}
		}
	}
}

func benchmark(b *testing.B, tr *Translator, packet []byte) {
	out := NewOut(0, 2048, 0)
	b.SetBytes(int64(len(packet)))
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime(b)
	for range b.N {
		out.Reset()
		if r := tr.Translate(out, packet); r.Verdict != Translated {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(b.N)/(cpuTime(b)-start).Seconds()/1e6, "Mpps/core")
}

// cpuTime is what this process has used of all cores. Unlike elapsed time it says what
// one core can do even while others compete for it.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
