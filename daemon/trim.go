package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"starling.dev/starling/internal/heap"
)

const (
	// trimEvery is how often a peer looks whether it holds memory that it does not use.
	trimEvery = time.Minute
	// trimWorth is how much of that is worth a collection, and trimBusy how much a peer
	// allocates in that time while it is at work, and about to use it again.
	trimWorth = 16 << 20
	trimBusy  = 128 << 20
)

// trimmer gives memory back to the machine that was in use only while much was written: the
// runtime by itself keeps as much again as is in use.
type trimmer struct{}

// String names the task.
func (trimmer) String() string { return "unused memory" }

// Run looks until the context ends.
func (trimmer) Run(ctx context.Context) error {
	heap.Pace()
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for before := readUse(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := readUse()
		if now.wastes(before) {
			debug.FreeOSMemory()
			now = readUse()
		}
		before = now
	}
}

// use is what the runtime says of its memory, in bytes.
type use struct {
	allocated uint64 // since the start
	used      uint64 // by objects, among them such as nobody refers to any more
	live      uint64 // of used, as of the last collection
	free      uint64 // and not given back
}

// wastes reports whether a collection would give much back that is not needed soon.
func (u use) wastes(before use) bool {
	garbage := u.used - min(u.live, u.used)
	return u.allocated-before.allocated < trimBusy && u.free+garbage >= trimWorth
}

func readUse() use {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	at := func(i int) uint64 { return samples[i].Value.Uint64() }
	return use{allocated: at(0), used: at(1), live: at(2), free: at(3)}
}
