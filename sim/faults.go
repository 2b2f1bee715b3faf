package sim

import (
	"slices"
	"time"

	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
)

// beginStorm lets the faults of the seed's weather loose.
func (w *World) beginStorm() {
	w.faulty = true
	c, r := w.weather, w.random.chaos
	w.every(c.clog, r, w.clog)
	w.every(c.partition, r, w.partition)
	w.every(c.suspicion, r, w.suspect)
	w.every(c.reconnects, r, w.reconnect)
	w.every(c.kill, r, w.kill)
	w.every(c.power, r, w.cutPower)
	w.every(c.full, r, w.fillDisk)
	w.every(c.wipe, r, w.wipe)
	w.every(c.restore, r, w.restore)
	w.every(c.jump, r, w.jump)
	w.every(c.trespass, r, w.trespass)
	w.every(c.forge, r, w.forge)
	d := w.random.damage
	w.every(c.equivocate, d, w.equivocate)
	w.every(c.malform, d, w.malform)
	w.every(c.rot, d, w.rot)
	w.every(c.pause, d, w.pause)
	w.every(c.upgrade, d, w.upgrade)
	w.every(c.future, d, w.writeOfTheFuture)
	w.every(c.withdraw, w.random.compact, w.withdraw)
	w.every(c.strip, w.random.compact, w.strip)
	w.every(c.join, r, w.join)
	w.every(c.remove, r, w.remove)
	w.people.begin()
	if c.roll {
		w.every(rollEvery, d, w.people.roll)
	}
	if c.kinds {
		w.beginKinds()
	}
}

// endStorm mends everything. What was removed or lost stays so.
func (w *World) endStorm() {
	w.say("the storm is over")
	w.faulty = false
	w.net.heal()
	w.chooseBroken()
	w.upgradeAll()
	w.keepBroken()
	for _, m := range w.members() {
		m.mend()
	}
	w.chores++
	w.after(10*time.Second, func() {
		w.chores--
		w.removeAgain()
	})
}

// mend ends what ails a machine.
func (m *machine) mend() {
	m.disk.full, m.paused = false, 0
	m.release()
	m.start()
	m.host.detached = false
	m.attached()
}

// downTime is how long a peer stays down.
func (w *World) downTime() time.Duration { return w.random.chaos.about(4 * time.Second) }

func (w *World) kill() {
	m := pick(w.random.chaos, w.members())
	if m.core == nil {
		return
	}
	w.say("%s: the peer is killed", m.name)
	w.sometimes("a peer is killed")
	m.kill()
	w.after(w.downTime(), m.restartIfDown)
}

func (w *World) cutPower() {
	m := pick(w.random.chaos, w.members())
	if !m.powered {
		return
	}
	w.say("%s: the power fails", m.name)
	w.sometimes("the power fails")
	m.cutPower()
	w.after(w.downTime(), m.start)
}

func (w *World) clog() {
	r := w.random.chaos
	a, b := pick(r, w.machines), pick(r, w.machines)
	w.net.links[a.index][b.index].clog = w.now + r.about(2*time.Second)
	w.sometimes("a link is clogged")
}

// partition cuts a random part off, for a while.
func (w *World) partition() {
	r := w.random.chaos
	side := map[int]bool{}
	for i := range w.machines {
		side[i] = r.chance(0.5)
	}
	oneWay := w.weather.oneWay && r.chance(0.5)
	mend := w.net.block(side, oneWay)
	w.sometimes(map[bool]string{true: "a one-way partition", false: "a partition"}[oneWay])
	w.say("partition %s one way=%v", w.names(side), oneWay)
	w.after(r.about(10*time.Second), func() {
		if w.faulty {
			w.say("partition %s is mended", w.names(side))
			mend()
		}
	})
}

func (w *World) names(side map[int]bool) (list string) {
	for i, m := range w.machines {
		if side[i] {
			list += m.name + " "
		}
	}
	return list + "| others"
}

func (w *World) suspect() {
	r := w.random.chaos
	if a, b := pick(r, w.machines), pick(r, w.machines); a != b {
		w.net.suspect(a, b, r.about(3*time.Second))
	}
}

func (w *World) reconnect() {
	r := w.random.chaos
	if a, b := pick(r, w.machines), pick(r, w.machines); a != b {
		w.net.reconnect(a, b, r.about(time.Second))
	}
}

func (w *World) fillDisk() {
	m := pick(w.random.chaos, w.members())
	if m.disk.full {
		return
	}
	m.disk.full = true
	w.say("%s: the disk is full", m.name)
	w.sometimes("a disk is full")
	w.after(w.random.chaos.about(5*time.Second), func() { m.disk.full = false })
}

// wipe loses a machine's disk: it is set up again under its old key, with what a join
// gives it.
func (w *World) wipe() {
	r := w.random.chaos
	m := pick(r, w.members())
	sponsor := w.sponsor(m)
	if sponsor == nil {
		return
	}
	w.say("%s: the disk is lost; %s takes it in again", m.name, sponsor.name)
	w.sometimes("a disk is wiped")
	m.cutPower()
	m.disk.Wipe()
	m.unsound = false
	w.check.damaged(m)
	if err := m.install(sponsor.core.AuthLog().Since(0)); err != nil {
		w.say("%s: %v", m.name, err)
	}
	w.forget()
	w.after(w.downTime(), m.start)
}

// forget takes out of the cluster whom nobody else knows any more: the disks that held the
// admission were lost, or their machines removed, and a stranger is not listened to.
func (w *World) forget() {
	for _, m := range w.members() {
		if w.sponsor(m) != nil || w.onDisk(m) {
			continue
		}
		w.say("%s: nobody knows that it was admitted", m.name)
		w.sometimes("an admission is lost with its disks")
		m.cutPower()
		m.gone = true
		w.check.damaged(m)
		w.net.changed()
	}
}

// onDisk reports whether another member's disk tells of m.
func (w *World) onDisk(m *machine) bool {
	return slices.ContainsFunc(w.members(), func(o *machine) bool { return o != m && o.knows(m) })
}

// sponsor is another machine that runs and knows m.
func (w *World) sponsor(m *machine) *machine {
	var able []*machine
	for _, s := range w.running() {
		if s == m {
			continue
		}
		if _, ok := s.core.Trust().ByID(m.id); ok {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return pick(w.random.chaos, able)
}

// restore brings a machine back to an older copy of its disk.
func (w *World) restore() {
	r := w.random.chaos
	m := pick(r, w.members())
	back := 1 + r.IntN(60)
	w.say("%s: the disk is restored from a copy %d commits old", m.name, back)
	w.sometimes("a disk is restored from an older copy")
	if w.random.damage.chance(0.5) {
		m.end(false)
		w.sometimes("a disk is restored while containers run")
	} else {
		m.cutPower()
	}
	// The first commit is the installation, which every copy holds.
	if err := m.disk.Restore(min(back, len(m.disk.history)-1)); err != nil {
		w.fail(2, "%s: restore: %v", m.name, err)
	}
	m.unsound = true
	w.check.damaged(m)
	w.forget()
	w.after(w.downTime(), m.start)
}

func (w *World) jump() {
	r := w.random.chaos
	m := pick(r, w.members())
	by := r.between(-3*time.Second, 10*time.Second)
	m.skew += by
	w.say("%s: the clock jumps by %v", m.name, by)
	w.sometimes("a clock jumps")
}

// join admits one machine more and starts it.
func (w *World) join() {
	if len(w.machines) >= 2*w.cfg.Peers+2 || len(w.running()) == 0 {
		return
	}
	sponsor := pick(w.random.chaos, w.running())
	i, life := len(w.machines), sponsor.life
	w.say("%s joins through %s", machineName(i), sponsor.name)
	w.manage(sponsor, func(log *identity.Log, now time.Time) error { return w.admit(log, i, now) }, func() {
		if len(w.machines) != i || sponsor.life != life {
			return
		}
		w.sometimes("a machine joins")
		m := w.addMachine(i, sponsor.core.AuthLog().Since(0))
		if w.broken[sponsor] { // nobody else could know it
			w.broken[m] = true
		}
		for _, o := range w.machines[:i] {
			if w.broken[o] != w.broken[m] {
				w.net.links[o.index][i].blocks++
				w.net.links[i][o.index].blocks++
			}
		}
		w.after(time.Second, m.start)
	})
}

func (w *World) admit(log *identity.Log, i int, now time.Time) error {
	body := identity.Admit{PublicKey: publicOf(newKey(w.cfg.Seed, machineName(i))), Name: machineName(i)}
	rec, err := log.Sign(w.root, identity.ClockAt(now), body)
	if err != nil {
		return err
	}
	_, err = log.Add(rec.Bytes())
	return err
}

// remove takes a machine out of the cluster for good, as long as enough are left.
func (w *World) remove() {
	r := w.random.chaos
	in := w.members()
	if len(in) <= 3 || len(w.running()) < 2 {
		return
	}
	by, m := pick(r, w.running()), pick(r, in)
	if by == m {
		return
	}
	w.removeAt(by, m, func() {
		w.sometimes("a machine is removed")
		m.cutPower()
		m.gone, m.removed = true, true
		w.check.damaged(m) // its disk is out of reach for good
		w.net.changed()
		w.after(0, w.forget) // whom it alone had admitted: that may be who answers, whose turn ends first
	})
}

func (w *World) removeAt(by, m *machine, done func()) {
	cut := by.core.CutOf(m.id)
	w.say("%s is removed at %s", m.name, by.name)
	w.manage(by, func(log *identity.Log, now time.Time) error {
		_, err := log.RemoveMachine(by.key, identity.ClockAt(now), identity.Remove{Machine: m.id, Reason: "taken out", Cut: cut})
		return err
	}, done)
}

// removeAgain has a person remove again who is gone and still a member for all: the disk
// that held the removal was lost before any other had it.
func (w *World) removeAgain() {
	for _, m := range w.machines {
		known := func(o *machine) bool {
			in, ok := o.core.Trust().ByID(m.id)
			return ok && in.Removed
		}
		if up := w.running(); m.removed && len(up) > 0 && !slices.ContainsFunc(up, known) {
			w.sometimes("a removal is lost with its disk")
			w.removeAt(up[0], m, func() {})
		}
	}
}

// manage posts a Manage event; done is called once what it stated is durable.
func (w *World) manage(m *machine, do func(*identity.Log, time.Time) error, done func()) {
	w.people.last++
	w.people.waiting[w.people.last] = asked{m, "manage", func(a peer.Answer) {
		if a.Err == nil {
			done()
		}
	}}
	m.post(peer.Manage{Request: w.people.last, Do: do})
}
