package peer

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// BenchmarkObjects brings many pods up on one core and reports what they cost.
func BenchmarkObjects(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint("pods=", n), func(b *testing.B) {
			for b.Loop() {
				benchObjects(b, n)
			}
		})
	}
}

func benchObjects(b *testing.B, n int) {
	c := newCluster(b, 1)
	c.run(time.Second)
	before := heapNow()
	var edits []Edit
	for i := range n {
		edits = append(edits, Edit{Kind: EditApply, Key: api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i)}, Fields: api.Fields{
			"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.args": `["--listen","[::]:8080"]`,
		}})
	}
	begun := time.Now()
	c.write(1, edits...)
	b.ReportMetric(time.Since(begun).Seconds()*1e6/float64(n), "us/pod")
	for i := range n {
		if c.status(1, fmt.Sprint("p", i))["status.ready"] != "true" {
			b.Fatalf("pod p%d is not ready: %v", i, c.status(1, fmt.Sprint("p", i)))
		}
	}
	c.cores[0].batch = nil
	b.ReportMetric(float64(heapNow()-before)/float64(n), "B/pod")
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
