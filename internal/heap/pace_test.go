package heap

import (
	"runtime/debug"
	"testing"
)

func TestSmallHeapsGrowFurtherAtWork(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 32 << 20: 300, 64 << 20: 100, 100 << 20: 100, 4 << 30: 100} {
		if got := percent(live, busy); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", live>>20, got, want)
		}
		if got := percent(live, busy-1); got != usual {
			t.Errorf("%d MiB in use, at rest: %d %%", live>>20, got)
		}
	}
	for live := uint64(1 << 20); live < 1<<30; live += 1 << 20 {
		if next := live + live*uint64(percent(live, busy))/100; next > max(small, 2*live) {
			t.Fatalf("%d MiB in use become %d MiB", live>>20, next>>20)
		}
	}
}

var held []byte // keeps the compiler from seeing that nobody reads it

// TestPaceFollowsTheWork: the pace becomes another while much is allocated, without anybody
// asking, and the usual one once much is in use.
func TestPaceFollowsTheWork(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(usual)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	Pace()
	allocateUntil(t, func(percent int) bool { return percent > usual })
	kept := make([]byte, 200<<20)
	allocateUntil(t, func(percent int) bool { return percent == usual })
	held = kept
}

func allocateUntil(t *testing.T, enough func(percent int) bool) {
	t.Helper()
	for range 100_000 {
		held = make([]byte, 1<<20)
		percent := debug.SetGCPercent(usual)
		debug.SetGCPercent(percent)
		if enough(percent) {
			return
		}
	}
	t.Fatal("the pace stays as it was")
}
