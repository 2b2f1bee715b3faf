package linux_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/loops"
)

// BenchmarkAttach sets up one pod's network after another: namespace, links,
// addresses, routes, IPv4. The target is a median of 15 ms.
func BenchmarkAttach(b *testing.B) {
	m := newCluster(b, 1).machines[0]
	check(b, m.Routes(b.Context(), m.plan()))
	var times []time.Duration
	k := 0
	for b.Loop() {
		begin := time.Now()
		p := m.attach(k)
		times = append(times, time.Since(begin))
		k++
		b.StopTimer()
		check(b, m.Detach(b.Context(), p.ID))
		b.StartTimer()
	}
	reportTimes(b, times)
}

// BenchmarkAttach100 sets up 100 pods at once. The target is 1 s.
func BenchmarkAttach100(b *testing.B) {
	m := newCluster(b, 1).machines[0]
	check(b, m.Routes(b.Context(), m.plan()))
	for b.Loop() {
		pods := make([]pod, 100)
		var wg sync.WaitGroup
		for i := range pods {
			wg.Go(func() { pods[i] = m.attach(i) })
		}
		wg.Wait()
		b.StopTimer()
		for _, p := range pods {
			check(b, m.Detach(b.Context(), p.ID))
		}
		b.StartTimer()
	}
}

// BenchmarkAdopt attaches a pod whose network is in place, among 100.
func BenchmarkAdopt(b *testing.B) {
	m := newCluster(b, 1).machines[0]
	check(b, m.Routes(b.Context(), m.plan()))
	var p pod
	for i := range 100 {
		p = m.attach(i)
	}
	for b.Loop() {
		m.attachAs(p.PodNetwork)
	}
}

// BenchmarkRoutes compares the routes to 10,000 machines, which are in place.
func BenchmarkRoutes(b *testing.B) {
	c := newCluster(b, 2)
	m := c.machines[0]
	plan := m.plan()
	via := plan.Routes[0].Via
	for i := range 10_000 {
		id := []byte{9, 9, 9, byte(i >> 16), byte(i >> 8), byte(i)}
		plan.Routes = append(plan.Routes, loops.Route{Prefix: prefixOf(c, id), Machine: "x", Via: via})
	}
	check(b, m.Routes(b.Context(), plan))
	for b.Loop() {
		check(b, m.Routes(b.Context(), plan))
	}
}

// BenchmarkFirstPacketLan sends a datagram to a pod that the sender does not know yet,
// in mode lan, on a machine that answers for 10,000 other addresses, and waits for the
// echo. The target is a median of 0.2 ms.
func BenchmarkFirstPacketLan(b *testing.B) {
	machines, neighbour := newLanCluster(b, 1)
	m := machines[0]
	prefix := strings.TrimSuffix(m.own.Addr().String(), ":")
	m.sh(b, "for i in $(seq 10000); do echo neighbour add proxy "+prefix+":9:9:$(printf %x $i) dev eth0; done | ip -6 -batch -")
	p := m.attach(1)
	at := netip.AddrPortFrom(p.Address, 7)
	echoDatagrams(b, p.path, at)
	var conn net.Conn
	check(b, in(b, neighbour.node.Namespace, func() (err error) {
		conn, err = net.Dial("udp", at.String())
		return err
	}))
	defer conn.Close()
	var times []time.Duration
	buf := make([]byte, 1)
	for b.Loop() {
		b.StopTimer()
		neighbour.sh(b, "ip -6 neighbour flush dev eth0")
		b.StartTimer()
		begin := time.Now()
		_, err := conn.Write(buf)
		check(b, err)
		_, err = conn.Read(buf)
		check(b, err)
		times = append(times, time.Since(begin))
	}
	reportTimes(b, times)
}

func echoDatagrams(b *testing.B, path string, at netip.AddrPort) {
	var conn *net.UDPConn
	check(b, in(b, path, func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	b.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			conn.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
}

func reportTimes(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(times[len(times)/2]), "ms-median")
	b.ReportMetric(ms(times[len(times)*99/100]), "ms-p99")
}
