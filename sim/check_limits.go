package sim

import "time"

// queue is invariant 11 for one queue.
func (c *checker) queue(m *machine, name string, length int) {
	const limit = 4096 // that of peer.Loop
	if length > limit {
		c.w.fail(11, "the %s of %s holds %d events, its limit is %d", name, m.name, length, limit)
	}
}

// waking is invariant 11 for time: a core that wants to be woken at once, again and
// again, while nothing happens, would never let its machine sleep.
func (c *checker) waking(m *machine, wake time.Time) {
	const limit = 200
	if wake.IsZero() || wake.After(m.clock()) {
		m.spins = 0
		return
	}
	if m.spins++; m.spins > limit {
		c.w.fail(11, "%s has wanted to be woken at once %d times in a row", m.name, m.spins)
	}
}
