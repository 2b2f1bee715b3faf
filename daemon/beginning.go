package daemon

import (
	"time"

	"starling.dev/starling/crdt"
)

// settleTime is how long a peer that has just begun may take to hear from the others before it
// counts on its own knowledge of who is there.
const settleTime = 4 * time.Second

// beginning tells who is silent from whom a peer that has just begun has not heard yet: it
// would else send on to its own pods alone, and answer for what others answer for.
type beginning struct {
	at    time.Time
	heard map[crdt.MachineID]bool // who was alive at any time since
	waits bool                    // for somebody who is neither alive nor silent
}

// over: whoever was not heard by now is silent.
func (b *beginning) over() bool { return time.Since(b.at) > settleTime }

// silent takes in whether a member is alive as far as gossip knows, and decides.
func (b *beginning) silent(id crdt.MachineID, alive bool) bool {
	if alive {
		b.heard[id] = true
		return false
	}
	if b.heard[id] || b.over() {
		return true
	}
	b.waits = true
	return false
}
