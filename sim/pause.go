package sim

import "time"

// pause stops a peer's program for a while, as SIGSTOP does: its containers and their
// guards go on, messages pile up, and then it goes on as if nothing had been.
func (w *World) pause() {
	r := w.random.damage
	m := pick(r, w.members())
	if m.core == nil || m.paused > w.now {
		return
	}
	d := r.about(4 * time.Second)
	m.paused = w.now + d
	w.say("%s: the peer stands still for %v", m.name, d)
	w.sometimes("a peer is paused")
}

// backlog is how many messages the kernel and the queue hold for a peer that stands
// still. Then the senders' streams are full.
const backlog = 2048

// hold defers something while the peer stands still.
func (m *machine) hold(do func()) bool {
	if m.paused <= m.w.now {
		return false
	}
	m.later(m.paused-m.w.now, do)
	return true
}
