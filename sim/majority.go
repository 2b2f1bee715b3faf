package sim

import (
	"maps"
	"slices"
)

// This file is the liveness mode: the storm ends for a majority of the voters only. What is
// left of the cluster must come to rest while the others stay broken; then these are mended
// too.

// chooseBroken draws which machines stay broken, so that a majority of the voters works in
// everybody's view.
func (w *World) chooseBroken() {
	w.broken = map[*machine]bool{}
	if !w.weather.minority {
		return
	}
	r := w.random.damage
	list := w.members()
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, m := range list {
		if !r.chance(0.5) {
			continue
		}
		if w.broken[m] = true; !w.enough() {
			delete(w.broken, m)
		}
	}
}

// enough reports whether whoever is not broken is a majority of the voters, whomever one
// asks.
func (w *World) enough() bool {
	for _, m := range w.machines {
		if m.core == nil || m.gone {
			continue
		}
		_, voters := m.core.Voters()
		whole := 0
		for _, v := range voters {
			if o := w.byID[v]; !o.gone && !w.broken[o] {
				whole++
			}
		}
		if whole <= len(voters)/2 {
			return false
		}
	}
	return len(w.members()) > 0
}

// keepTogether counts as broken, too, whom the others that work do not know: who could tell
// them of each other is broken, and a stranger is not listened to.
func (w *World) keepTogether() {
	broken := w.broken
	left := w.members()
	for len(left) > 0 {
		part := left[:1:1]
		for i := 0; i < len(part); i++ {
			for _, m := range left {
				if !slices.Contains(part, m) && part[i].knows(m) && m.knows(part[i]) {
					part = append(part, m)
				}
			}
		}
		left = slices.DeleteFunc(left, func(m *machine) bool { return slices.Contains(part, m) })
		w.broken = maps.Clone(broken)
		for _, m := range w.members() {
			w.broken[m] = !slices.Contains(part, m)
		}
		if w.enough() {
			return
		}
	}
	w.broken = map[*machine]bool{}
}

// knows reports whether a machine's disk tells that another was admitted.
func (m *machine) knows(o *machine) bool {
	log, err := m.readLog()
	if err != nil {
		return false
	}
	_, ok := log.Snapshot().ByID(o.id)
	return ok
}

// keepBroken switches the broken machines off, or cuts them off.
func (w *World) keepBroken() {
	if len(w.broken) > 0 {
		w.keepTogether()
	}
	maps.DeleteFunc(w.broken, func(_ *machine, is bool) bool { return !is })
	side := map[int]bool{}
	for i, m := range w.machines {
		if !w.broken[m] {
			continue
		}
		w.say("%s stays broken", m.name)
		w.sometimes("a minority stays broken")
		side[i] = true
		if w.random.damage.chance(0.5) {
			m.cutPower()
		}
	}
	w.net.block(side, false)
}

// mendRest mends those that stayed broken.
func (w *World) mendRest() {
	w.say("the rest is mended")
	w.broken = nil
	w.net.heal()
	w.upgradeAll()
	for _, m := range w.members() {
		m.mend()
	}
}
