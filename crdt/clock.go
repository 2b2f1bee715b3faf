package crdt

import "time"

// Clock is a hybrid logical clock (Kulkarni et al., "Logical Physical Clocks",
// 2014): Unix milliseconds << 16 | counter. It never goes back, stays close to the
// physical clock, and is greater than all that it observed, so that an author's
// change is later than what the author saw. A counter that overflows carries into
// the milliseconds. The zero value is ready; observe the last persisted reading
// first, so that a machine without a clock battery goes on from there.
type Clock struct {
	last uint64
}

// Now returns the next reading.
func (c *Clock) Now(physicalMillis int64) uint64 {
	c.last = max(c.last+1, physical(physicalMillis))
	return c.last
}

// Observe moves the clock past a reading of another one.
func (c *Clock) Observe(hlc uint64) { c.last = max(c.last, hlc) }

// Last is the greatest reading so far, given out or observed.
func (c *Clock) Last() uint64 { return c.last }

// Millis is the physical part of a reading, in Unix milliseconds.
func Millis(hlc uint64) int64 { return int64(hlc >> 16) }

// Ahead tells how far a reading lies ahead of the physical clock; negative when it
// lies behind. A peer refuses entries too far ahead at its door; the fold never
// looks at it.
func Ahead(hlc uint64, physicalMillis int64) time.Duration {
	const limit = int64(1<<63-1) / int64(time.Millisecond)
	d := min(Millis(hlc)-physicalMillis, limit)
	return time.Duration(max(d, -limit)) * time.Millisecond
}

func physical(millis int64) uint64 {
	if millis <= 0 {
		return 0
	}
	return min(uint64(millis), maxTime) << 16
}
