package services_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/service"
)

// many is the number of services that the targets are given for.
const many = 30_000

// rounds is how many times one run of a benchmark measures, for a median.
const rounds = 100

// crowd fills the table with services, the first of which has pod 1 behind it.
func crowd(b *testing.B, n int) (*world, []service.Service) {
	w := newWorld(b, 3)
	w.Serve(1, 8080)
	list := make([]service.Service, n)
	for i := range list {
		list[i] = w.service(uint64(i+1), 1, 2)
	}
	list[0] = w.service(1, 1)
	w.sync(list...)
	return w, list
}

// BenchmarkAddService measures one more service, beside n others.
func BenchmarkAddService(b *testing.B) {
	for name, n := range map[string]int{"of=10": 10, "of=30000": many} {
		b.Run(name, func(b *testing.B) {
			w, _ := crowd(b, n)
			extra := w.service(1<<40, 1, 2).Forwards()
			var took []time.Duration
			var cpu time.Duration
			for b.Loop() {
				for range rounds {
					began, before := time.Now(), cpuTime()
					check(b, w.table.Update(extra, nil))
					took = append(took, time.Since(began))
					cpu += cpuTime() - before
					check(b, w.table.Update(nil, []service.Where{extra[0].Where}))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(len(took)), "add-cpu-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "add-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "add-p99-ms")
		})
	}
}

// BenchmarkConnect compares the set-up of a connection through one of many services
// with that of a direct one.
func BenchmarkConnect(b *testing.B) {
	w, list := crowd(b, many)
	direct := netip.AddrPortFrom(w.Pods[1].Address, 8080)
	var through, straight []time.Duration
	for b.Loop() {
		for range rounds {
			straight = append(straight, w.connect(direct))
			through = append(through, w.connect(at(list[0])))
		}
	}
	slices.Sort(through)
	slices.Sort(straight)
	t, s := through[len(through)/2], straight[len(straight)/2]
	b.ReportMetric(float64(t.Nanoseconds())/1000, "service-us")
	b.ReportMetric(float64(s.Nanoseconds())/1000, "direct-us")
	b.ReportMetric(float64(t)/float64(s), "ratio")
}

// connect measures one connection of pod 0, without entering its namespace.
func (w *world) connect(to netip.AddrPort) (took time.Duration) {
	check(w.T, w.In(w.Pods[0].Space, func() error {
		began := time.Now()
		conn, err := dial(to)
		took = time.Since(began)
		if err == nil {
			conn.Close()
		}
		return err
	}))
	return took
}

// BenchmarkSync measures a look at everything that finds it in place, and beside it how
// long it took to make it.
func BenchmarkSync(b *testing.B) {
	began := time.Now()
	w, list := crowd(b, many)
	filled := time.Since(began)
	for b.Loop() {
		w.sync(list...)
	}
	b.ReportMetric(filled.Seconds(), "fill-s")
}

// cpuTime is what this process has used so far, which on a busy computer says more than
// a clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
