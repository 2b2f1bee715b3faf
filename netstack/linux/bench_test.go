package linux_test

import (
	"slices"
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
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "ms-p99")
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
