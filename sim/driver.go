package sim

import (
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// This file drives a core as peer.Loop does: gather what happened, step the core, make
// the turn durable with one sync, and only then let its effects go.

const (
	// turnLimit bounds the events of one turn, as in peer.Loop.
	turnLimit = 512
	// turnTime is what a turn costs in virtual time: what arrives meanwhile shares it.
	turnTime = 50 * time.Microsecond
	// reopenAfter is the pause before a disk that failed is opened again.
	reopenAfter = 2 * time.Second
	// serveBytes bounds what is read from disk for one message.
	serveBytes = 1 << 20
)

// post hands an event to the peer, if it runs.
func (m *machine) post(e peer.Event) {
	if m.core == nil {
		return
	}
	m.inbox = append(m.inbox, e)
	m.w.check.queue(m, "inbox", len(m.inbox))
	m.schedule()
}

// schedule has a turn come soon, unless one is on its way.
func (m *machine) schedule() {
	if !m.turning {
		m.turning = true
		m.later(turnTime, m.begin)
	}
}

// turn steps the core and carries its Ready out up to the sync.
func (m *machine) turn() {
	if m.hold(m.begin) {
		return
	}
	now, n := m.clock(), min(len(m.inbox), turnLimit)
	m.core.Boot(m.boot())
	events := m.inbox[:n]
	m.inbox = m.inbox[n:]
	if n == 0 {
		m.core.Step(now, peer.Tick{})
	}
	for _, e := range events {
		m.core.Step(now, e)
	}
	m.w.figures.Turns++
	m.ready = m.core.Ready()
	r := &m.ready
	for _, e := range r.Relay {
		m.send(e)
	}
	if m.w.hooks.early != nil {
		early := m.w.hooks.early(m, r)
		m.effects(&early)
	}
	if r.Commit.Empty() {
		m.finish(r)
		return
	}
	m.commit(r)
}

// commit makes the turn durable. A commit that fails ends this life of the core: a
// sync is never retried.
func (m *machine) commit(r *peer.Ready) {
	c := r.Commit
	if m.w.hooks.commit != nil {
		c = m.w.hooks.commit(m, c)
	}
	if err := m.disk.Write(c); err != nil {
		m.diskFailed(err)
		return
	}
	m.w.figures.Commits++
	if m.w.hooks.unsynced != nil && m.w.hooks.unsynced(m) {
		m.finish(r)
		return
	}
	m.later(m.w.random.disk.between(50*time.Microsecond, m.w.weather.sync), func() { m.synced(r) })
}

// synced is the end of a sync.
func (m *machine) synced(r *peer.Ready) {
	if m.hold(func() { m.synced(r) }) {
		return
	}
	if err := m.disk.Sync(); err != nil {
		m.diskFailed(err)
		return
	}
	m.unsound = false // what the start check demanded is durable
	m.finish(r)
}

func (m *machine) diskFailed(err error) {
	m.w.say("%s: %v", m.name, err)
	m.w.sometimes("a commit failed")
	m.end(false)
	m.w.after(reopenAfter, m.restartIfDown)
}

// restartIfDown starts the peer again, as systemd does, unless the machine is off.
func (m *machine) restartIfDown() {
	if m.powered {
		m.start()
	}
}

// finish lets the effects of a durable turn go.
func (m *machine) finish(r *peer.Ready) {
	m.w.check.turned(m, r)
	m.effects(r)
	m.core.Advance()
	m.verifier.Update(m.core.Trust())
	m.turning = false
	if r.Rebuild {
		m.w.say("%s: the core is rebuilt", m.name)
		m.w.sometimes("a core is rebuilt")
		m.end(false)
		m.start()
		return
	}
	if m.w.random.rest.chance(m.w.check.rate(0.005)) {
		m.save()
	}
	if len(m.inbox) > 0 || len(r.Serve) > 0 {
		m.schedule()
		return
	}
	m.sleep(r.Wake)
}

// effects carries out what comes after the sync.
func (m *machine) effects(r *peer.Ready) {
	for _, e := range r.Send {
		m.send(e)
	}
	for _, s := range r.Serve {
		m.serve(s)
	}
	for _, id := range r.Cancel {
		if a := m.actions[id]; a != nil {
			a.cancel()
		}
	}
	for _, l := range r.Leases {
		m.host.Tell(l)
	}
	for _, a := range r.Start {
		m.act(a)
	}
	for _, a := range r.Answers {
		m.w.people.answered(m, a)
	}
}

// sleep has a tick come when the core wants one.
func (m *machine) sleep(wake time.Time) {
	m.wake++
	m.w.check.waking(m, wake)
	if wake.IsZero() {
		return
	}
	mine := m.wake
	m.later(max(wake.Sub(m.clock()), 0), func() {
		if m.wake == mine {
			m.schedule()
		}
	})
}

func (m *machine) send(e peer.Envelope) {
	if m.w.hooks.send != nil {
		for _, altered := range m.w.hooks.send(m, e) {
			m.w.net.send(m, altered)
		}
		return
	}
	m.w.net.send(m, e)
}

// serve sends ranges of the log, as far as one answer goes.
func (m *machine) serve(s peer.Serve) {
	m.w.sometimes("entries served from disk")
	var batches [][]byte
	size, sent := 0, 0
	for _, r := range s.Ranges {
		if sent+size >= peer.ServeLimit {
			break
		}
		for _, raw := range m.disk.ReadRange(r, serveBytes) {
			raw = m.misread(raw)
			if size+len(raw) > serveBytes && len(batches) > 0 {
				m.send(peer.Envelope{To: s.To, Message: peer.Push{Batches: batches, Fresh: s.Fresh}})
				sent += size
				batches, size = nil, 0
			}
			batches, size = append(batches, raw), size+len(raw)
		}
	}
	if len(batches) > 0 {
		m.send(peer.Envelope{To: s.To, Message: peer.Push{Batches: batches, Fresh: s.Fresh, Last: true}})
	}
}

// receive takes a message off the network: decoded and checked, as peer.Loop does.
func (m *machine) receive(from crdt.MachineID, msg peer.Message) {
	if m.core == nil || m.paused > m.w.now && len(m.inbox) >= backlog {
		return
	}
	if sender, ok := m.verifier.Snapshot().ByID(from); !ok || sender.Removed {
		m.w.sometimes("a message of a stranger")
		return
	}
	checked, err := m.verifier.Message(msg)
	if err != nil {
		m.w.sometimes("entries refused at the door")
	}
	m.post(peer.Received{From: from, Message: checked})
}
