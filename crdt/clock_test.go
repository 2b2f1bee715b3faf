package crdt

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestClockNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c Clock
		var last uint64
		for range rapid.IntRange(1, 50).Draw(rt, "events") {
			if rapid.Bool().Draw(rt, "observe") {
				seen := rapid.Uint64Range(0, maxHLC).Draw(rt, "seen")
				c.Observe(seen)
				last = max(last, seen)
				continue
			}
			now := rapid.Int64().Draw(rt, "physical")
			h := c.Now(now)
			if h <= last {
				rt.Fatalf("reading %d is not after %d", h, last)
			}
			if now > 0 && now < maxTime && Millis(h) < now {
				rt.Fatalf("reading %d lags behind the physical clock %d", Millis(h), now)
			}
			last = h
		}
	})
}

func TestClockFollowsPhysicalTime(t *testing.T) {
	var c Clock
	c.Now(1000)
	for range 70_000 { // more than the counter holds
		c.Now(1000)
	}
	if ms := Millis(c.Last()); ms != 1001 {
		t.Errorf("the counter carried to %d ms, want 1001", ms)
	}
	if got := c.Now(5000); got != 5000<<16 {
		t.Errorf("reading %x, want the physical clock's", got)
	}
}

func TestAhead(t *testing.T) {
	for _, c := range []struct {
		hlc    uint64
		millis int64
		want   time.Duration
	}{
		{5000 << 16, 2000, 3 * time.Second},
		{2000 << 16, 5000, -3 * time.Second},
		{math.MaxUint64, 0, math.MaxInt64 / time.Millisecond * time.Millisecond},
	} {
		if got := Ahead(c.hlc, c.millis); got != c.want {
			t.Errorf("Ahead(%d, %d) = %v, want %v", c.hlc, c.millis, got, c.want)
		}
	}
}
