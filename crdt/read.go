package crdt

import "slices"

// Object returns the incarnation that holds a name; if none does, the deleted
// one that began last.
func (s *State) Object(ref Ref) (*Object, bool) {
	sl := s.at(ref)
	if sl == nil || sl.view == nil {
		return nil, false
	}
	view := sl.view
	s.trim()
	return view, true
}

// Incarnations returns everything that ever bore a name, in the order in which it
// began: deleted ones (which may have to be taken down still), losers, and
// those whose creation was refused.
func (s *State) Incarnations(ref Ref) []*Object {
	if sl := s.at(ref); sl != nil {
		all := sl.incarnations()
		s.trim()
		return all
	}
	return nil
}

// Incarnation returns one incarnation by its identity.
func (s *State) Incarnation(ref Ref, id ID) (*Object, bool) {
	sl := s.at(ref)
	if sl == nil {
		return nil, false
	}
	line, gen := sl.incarnation(id)
	if line == nil {
		return nil, false
	}
	return line.gens[gen], true
}

// Objects returns, for each name of a kind in order, what Object returns.
func (s *State) Objects(kind string) []*Object {
	x := s.kinds[kind]
	if x == nil {
		return nil
	}
	slots := x.all()
	objects := make([]*Object, 0, len(slots))
	for _, sl := range slots {
		if s.open(sl); sl.view != nil {
			objects = append(objects, sl.view)
		}
		s.trim()
	}
	return objects
}

// Refused returns the changes to a name that were refused and are no revs, latest
// first: at most 32 of them, and each step's result that would have won. Refused
// revs are among the object's revs.
func (s *State) Refused(ref Ref) []Refusal {
	sl := s.at(ref)
	if sl == nil {
		return nil
	}
	refusals := sl.refused()
	for _, o := range sl.incarnations() {
		for _, g := range o.results {
			if g.refused != "" {
				author := loopPrefix + s.cfg.StepOwner(ref.Kind, g.step)
				refusals = append(refusals, Refusal{g.change, author, g.stamp, g.refused})
			}
		}
	}
	slices.SortFunc(refusals, Refusal.compare)
	return refusals
}

// Hash is the hash of all objects: equal sets of changes, equal hashes. It costs
// as much as there are objects that changed since it was last asked for.
func (s *State) Hash() ID {
	if !s.asked {
		s.asked = true
		for _, sl := range s.slots { // a sum does not depend on the order
			s.rehash(sl)
		}
	}
	for _, sl := range s.dirty {
		if !sl.discarded {
			s.rehash(sl)
		}
	}
	s.dirty = s.dirty[:0]
	return s.sum.id(s.count)
}

// rehash brings the sum up to date with a slot. Of a name that nothing is known of the
// hash is zero, which is not in the sum.
func (s *State) rehash(sl *slot) {
	if sl.hash == nil {
		sl.hash = new(ID)
	}
	if !sl.hash.IsZero() {
		s.sum.remove(*sl.hash)
		s.count--
	}
	s.open(sl)
	if *sl.hash, s.scratch = sl.digest(s.scratch); !sl.hash.IsZero() {
		s.sum.add(*sl.hash)
		s.count++
	}
	sl.dirty = false
	s.trim()
}
