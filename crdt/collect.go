package crdt

import (
	"slices"
)

// An incarnation that a loop made, and that is deleted and taken down, is collected by
// covering its creation (see [Compacted]). Then nothing counts any more of what names it: a
// change waits for its creation, which never comes, and whoever wrote it may cover it as
// well. The order matters. Were the deletion covered while the creation still counts, the
// incarnation would come back to life; so a statement that covers the rest presumes the
// one that covers the creation ([Presumed]).

// Ended reports whether an incarnation may be collected, as far as the fold knows: a loop
// made it and owns its spec, so that no edit revives it; it is deleted; and nothing in its
// history is a person's. latest is the stamp of the last that was said of it.
func (s *State) Ended(ref Ref, created ID) (latest uint64, ended bool) {
	sl := s.at(ref)
	if sl == nil {
		return 0, false
	}
	defer s.trim()
	line, gen := sl.incarnation(created)
	if line == nil || gen != 0 || !s.loops(line) {
		return 0, false
	}
	for _, n := range line.nodes {
		if isPerson(n.author) {
			return 0, false
		}
		latest = max(latest, n.stamp)
	}
	for _, o := range line.gens {
		if o.live() {
			return 0, false
		}
		for _, g := range o.results {
			latest = max(latest, g.stamp)
		}
	}
	return latest, true
}

// loops reports whether an incarnation is a loop's altogether: people can't edit its spec.
func (s *State) loops(line *lineage) bool {
	root := line.root()
	return root.counts() && s.specOwner(line.gens[0].ref.Kind, root.author) != ""
}

// Collect drops all that is known of an incarnation whose creation is covered: the state
// is the one of the changes that do not name it. It reports whether there was anything that
// is a loop's.
func (s *State) Collect(ref Ref, created ID) bool {
	sl := s.at(ref)
	if sl == nil {
		return false
	}
	before := len(sl.lines)
	sl.lines = slices.DeleteFunc(sl.lines, func(l *lineage) bool { return l.root().id == created && s.loops(l) })
	if len(sl.lines) == before {
		s.trim()
		return false
	}
	s.refresh(sl)
	s.discard(sl)
	s.trim()
	return true
}

// Void reports whether a change that is covered has no effect on the state, because no
// incarnation that is known has its name. If it waits for one it is dropped.
func (s *State) Void(c Change, id ID) bool {
	if c.Incarnation.IsZero() || c.Level > s.level || shapeOf(&c).malformed != "" {
		return false
	}
	if sl := s.at(c.Object); sl != nil {
		defer s.trim()
		if line, _ := sl.incarnation(c.Incarnation); line != nil {
			return false
		}
		defer s.discard(sl)
	}
	s.room.drop(id)
	return true
}

// Abandon drops what waits for a change that is covered, and so never comes. It reports
// whether there was anything.
func (s *State) Abandon(id ID) bool {
	waiters := s.room.take(id)
	for _, w := range waiters {
		if sl := s.at(w.change.Object); sl != nil {
			s.discard(sl)
		}
	}
	s.trim()
	return len(waiters) > 0
}

// drop takes out a change that waits for another.
func (r *room) drop(id ID) {
	w := r.byID[id]
	if w == nil {
		return
	}
	delete(r.byID, id)
	rest := slices.DeleteFunc(r.on[w.verdict.missing], func(o *waiter) bool { return o == w })
	if r.on[w.verdict.missing] = rest; len(rest) == 0 {
		delete(r.on, w.verdict.missing)
	}
}

// discard lets go of a name that nothing is known of any more.
func (s *State) discard(sl *slot) {
	if sl.discarded || sl.held > 0 || len(sl.lines) > 0 || len(sl.refusals) > 0 {
		return
	}
	s.forget(sl)
	if sl.hash != nil && !sl.hash.IsZero() {
		s.sum.remove(*sl.hash)
		s.count--
		*sl.hash = ID{}
	}
	if sl.listed {
		s.kinds[sl.ref.Kind].discarded++
	}
	sl.discarded = true
	delete(s.slots, sl.ref)
}
