package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A peer that is at rest gives back what it took while it was at work, and one that is at
// work does not.
func TestTrim(t *testing.T) {
	const mib = 1 << 20
	before := use{allocated: 1000 * mib}
	for _, tt := range []struct {
		name string
		now  use
		want bool
	}{
		{"at rest, much is garbage", use{allocated: 1001 * mib, used: 90 * mib, live: 40 * mib}, true},
		{"at rest, much is free", use{allocated: 1001 * mib, used: 40 * mib, live: 40 * mib, free: 20 * mib}, true},
		{"at rest, little is", use{allocated: 1001 * mib, used: 44 * mib, live: 40 * mib, free: 4 * mib}, false},
		{"at rest, something was freed by hand", use{allocated: 1001 * mib, used: 40 * mib, live: 44 * mib}, false},
		{"at work", use{allocated: 1300 * mib, used: 90 * mib, live: 40 * mib}, false},
	} {
		if got := tt.now.wastes(before); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// What the runtime says has the meaning that the decision needs.
func TestReadUse(t *testing.T) {
	debug.FreeOSMemory()
	before := readUse()
	held := make([]byte, 64<<20)
	during := readUse()
	if during.allocated-before.allocated < 64<<20 || during.used-during.live < 60<<20 {
		t.Errorf("64 MiB more: %+v, before %+v", during, before)
	}
	runtime.KeepAlive(held)
	debug.FreeOSMemory()
	if now := readUse(); now.wastes(during) {
		t.Errorf("given back: %+v", now)
	}
}
