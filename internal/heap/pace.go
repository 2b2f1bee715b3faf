package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busy is how many bytes a second are allocated by a process that is at work.
	busy = 16 << 20
	// small is how large a heap may become then between two collections in any case, but
	// to no more than most percent above what is in use.
	small = 128 << 20
	most  = 400
	// usual is the runtime's own choice, for whatever is larger or not at work.
	usual = 100
)

// percent is how much may be allocated before the next collection, in percent of what is in
// use, where so many bytes a second are allocated.
func percent(live, rate uint64) int {
	if rate < busy {
		return usual
	}
	return int(min(max((small-min(live, small))*100/max(live, 1), usual), most))
}

// state is what was so at a collection.
type state struct {
	at      time.Time
	allocs  uint64 // bytes since the process was started
	percent int
}

// Pace sets the pace of collections after each of them, as long as the process lives. Who
// started the process with a pace of their own (GOGC) keeps that.
func Pace() {
	if os.Getenv("GOGC") == "" {
		state{at: time.Now(), allocs: read()[0].Value.Uint64(), percent: usual}.await()
	}
}

// await has the next collection look at the pace again: it finds what nobody refers to.
func (s state) await() { runtime.AddCleanup(new([16]byte), state.look, s) }

// look sets the pace anew where it is not what it was.
func (s state) look() {
	found := read()
	now := state{at: time.Now(), allocs: found[0].Value.Uint64()}
	rate := float64(now.allocs-s.allocs) / max(now.at.Sub(s.at).Seconds(), 1e-3)
	now.percent = percent(found[1].Value.Uint64(), uint64(rate))
	if now.percent != s.percent { // all goroutines are stopped for it
		debug.SetGCPercent(now.percent)
	}
	now.await()
}

func read() []metrics.Sample {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples
}
