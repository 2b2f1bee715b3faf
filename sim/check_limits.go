package sim

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// spender is one loop, in one life of a store, and an object that it writes about.
type spender struct {
	actor crdt.ActorID
	ref   crdt.Ref
	loop  string
}

// spending is how much of its budget a loop has used, when that was, and what the writer's
// own clock said.
type spending struct {
	entries float64
	at      time.Duration
	clock   uint64
}

// spends is invariant 11 for loops: none writes more about an object than its budget and
// what it has earned since, by the world's time or by its machine's clock, which may jump.
// Taking something back is never held up, and does not count.
func (c *checker) spends(actor crdt.ActorID, ch *crdt.Change) {
	const slack = 8 // steps of one loop that start at the same moment, and what is lost afterwards
	for _, op := range ch.Ops {
		if op.Kind != crdt.OpResult || op.Register == nil || op.Register.Phase == crdt.PhaseUndone || op.Register.Code == api.UndoFailed {
			continue
		}
		key := spender{actor, ch.Object, ch.Author}
		s, clock := c.spent[key], uint64(crdt.Millis(ch.HLC))
		earned := max(c.w.now-s.at, time.Duration(clock-min(s.clock, clock))*time.Millisecond)
		s.entries = max(0, s.entries-earned.Seconds()/lifecycle.EntryEvery.Seconds()) + 1
		s.at, s.clock = c.w.now, max(s.clock, clock)
		c.spent[key] = s
		if s.entries > lifecycle.DefaultEntries+slack {
			c.w.fail(11, "%s has written %.0f entries about %s at once; its budget is %d", ch.Author, s.entries, ch.Object, lifecycle.DefaultEntries)
		}
	}
}

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
