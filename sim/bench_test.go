package sim

import (
	"fmt"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRun simulates whole clusters, checkers on: events and virtual time by the
// second of processor time. Calm is without faults: people at work on a cluster in order.
func BenchmarkRun(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as `peer sim` does
	for _, cfg := range []Config{
		{Peers: 5, Duration: time.Minute}, {Peers: 10, Duration: time.Minute}, {Peers: 10, Duration: 10 * time.Minute, Calm: true},
	} {
		name := fmt.Sprintf("%d peers", cfg.Peers)
		if cfg.Calm {
			name += " calm"
		}
		b.Run(name, func(b *testing.B) {
			events, virtual, began := 0, time.Duration(0), processorTime(b)
			for i := range b.N {
				cfg.Seed = uint64(7 + i%20)
				r, err := Run(cfg)
				if err != nil {
					b.Fatal(err)
				}
				events, virtual = events+r.Figures.Events, virtual+r.Virtual
			}
			used := processorTime(b) - began
			b.ReportMetric(float64(events)/used.Seconds(), "events/cpu-s")
			b.ReportMetric(virtual.Seconds()/used.Seconds(), "x-real-time/cpu")
		})
	}
}

// processorTime is what this process has used: the clock would count what others use, too.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
