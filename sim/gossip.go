package sim

import (
	"fmt"
	"time"

	"starling.dev/starling/peer"
)

// view is what one machine was told of another: by gossip whether it is alive, by the
// transport whether there is a connection. Both are hints, and late.
type view struct {
	alive, connected bool
	// pendingAlive and pendingUp say that the truth is on its way.
	pendingAlive, pendingUp bool
}

// truth is what gossip would say if it were never wrong: a machine is alive if it
// answers, directly or through one other.
func (n *network) truth(a, b *machine) bool {
	if n.twoWay(a, b) {
		return true
	}
	for _, via := range n.w.machines {
		if via != a && via != b && n.twoWay(a, via) && n.twoWay(via, b) {
			return true
		}
	}
	return false
}

// changed has everybody learn, sooner or later, how the others can be reached now.
func (n *network) changed() {
	for _, a := range n.w.machines {
		if a.core == nil {
			continue
		}
		for _, b := range n.w.machines {
			if a != b {
				n.refresh(a, b)
			}
		}
	}
}

func (n *network) refresh(a, b *machine) {
	v := &n.views[a.index][b.index]
	if alive := n.truth(a, b); alive != v.alive && !v.pendingAlive {
		v.pendingAlive = true
		a.later(n.delay(alive), func() { n.tellAlive(a, b, true) })
	}
	if up := n.twoWay(a, b); up != v.connected && !v.pendingUp {
		v.pendingUp = true
		a.later(n.delay(up)/2, func() { n.tellUp(a, b) })
	}
}

// delay is how long the news takes: good news is quick.
func (n *network) delay(good bool) time.Duration {
	r := n.w.random.gossip
	if good {
		return r.between(10*time.Millisecond, n.w.weather.hintDelay/4)
	}
	return r.between(n.w.weather.hintDelay/4, n.w.weather.hintDelay)
}

// tellAlive posts what gossip finds now.
func (n *network) tellAlive(a, b *machine, settled bool) {
	v := &n.views[a.index][b.index]
	v.pendingAlive = v.pendingAlive && !settled
	if alive := n.truth(a, b); alive != v.alive {
		v.alive = alive
		n.w.trace.note(n.w.now, 'v', a.index, b.index, 0)
		if n.w.trace.out != nil {
			n.w.detail("%s sees %s alive=%v", a.name, b.name, alive)
		}
		a.post(peer.Membership{Machine: b.id, Alive: alive})
	}
}

func (n *network) tellUp(a, b *machine) {
	v := &n.views[a.index][b.index]
	v.pendingUp = false
	if up := n.twoWay(a, b); up != v.connected {
		v.connected = up
		a.post(peer.Connection{Machine: b.id, Up: up})
	}
}

// introduce forgets what the machine's earlier life was told: it starts with nothing.
func (n *network) introduce(a *machine) {
	for i := range n.views[a.index] {
		n.views[a.index][i] = view{}
	}
	n.changed()
}

// suspect has gossip tell a lie, which is refuted a while later.
func (n *network) suspect(a, b *machine, d time.Duration) {
	v := &n.views[a.index][b.index]
	if a.core == nil || !v.alive {
		return
	}
	v.alive = false
	n.w.sometimes("false suspicion")
	a.post(peer.Membership{Machine: b.id, Alive: false})
	a.later(d, func() { n.tellAlive(a, b, false) })
}

// reconnect breaks a connection for a moment.
func (n *network) reconnect(a, b *machine, d time.Duration) {
	v := &n.views[a.index][b.index]
	if a.core == nil || !v.connected {
		return
	}
	v.connected = false
	n.w.sometimes("a connection breaks")
	a.post(peer.Connection{Machine: b.id, Up: false})
	a.later(d, func() { n.tellUp(a, b) })
}

// describe prints a message in a few words.
func describe(m peer.Message) string {
	switch m := m.(type) {
	case peer.Push:
		return fmt.Sprintf("push %d fresh=%v", len(m.Batches), m.Fresh)
	case peer.Digest:
		return fmt.Sprintf("digest %v", m.Heads)
	case peer.Vector:
		return fmt.Sprintf("vector %d reply=%v", len(m.Heads), m.Reply)
	case peer.Ack:
		return fmt.Sprintf("ack %d", len(m.Heads))
	case peer.Vote:
		return fmt.Sprintf("vote silent=%v", m.Silent)
	case peer.AuthRecords:
		return fmt.Sprintf("records %d", len(m.Records))
	}
	return fmt.Sprintf("%T", m)
}
