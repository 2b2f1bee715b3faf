package sim

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"
)

// BenchmarkRun simulates whole clusters under faults, checkers on: events and virtual
// time by the second of the clock.
func BenchmarkRun(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as `peer sim` does
	for _, peers := range []int{5, 10} {
		b.Run(fmt.Sprintf("%d peers", peers), func(b *testing.B) {
			events, virtual := 0, time.Duration(0)
			for i := range b.N {
				r, err := Run(Config{Seed: uint64(7 + i%20), Peers: peers, Duration: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				events, virtual = events+r.Figures.Events, virtual+r.Virtual
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}
