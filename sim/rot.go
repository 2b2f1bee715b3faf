package sim

import "bytes"

// rot loses the end of one log on a machine's disk, which its next start finds out.
func (w *World) rot() {
	r := w.random.damage
	m := pick(r, w.members())
	actors := m.disk.Actors()
	if len(actors) == 0 {
		return
	}
	actor := pick(r, actors)
	batches := len(m.disk.durable.logs[actor].batches)
	if batches == 0 {
		return
	}
	w.say("%s: a log on the disk is damaged", m.name)
	w.sometimes("a log on a disk is damaged")
	m.end(false)
	m.disk.Rot(actor, r.IntN(batches))
	m.unsound = true
	w.check.damaged(m)
	w.after(w.downTime(), m.restartIfDown)
}

// misread flips a bit of what is read for others, now and then: their check of the
// signature finds it out.
func (m *machine) misread(raw []byte) []byte {
	r := m.w.random.damage
	if !m.w.faulty || !r.chance(m.w.weather.misread) {
		return raw
	}
	m.w.sometimes("a read is wrong")
	raw = bytes.Clone(raw)
	raw[r.IntN(len(raw))] ^= byte(1 << r.IntN(8))
	return raw
}
