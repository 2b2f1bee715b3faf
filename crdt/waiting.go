package crdt

import (
	"bytes"
	"slices"
)

// cause says what a change waits for.
type cause uint8

const (
	forIncarnation cause = iota
	forParent
	forAuthorisation
	forLevel
)

// String completes "it waits for …".
func (c cause) String() string {
	return [...]string{"its object's creation", "a change that it builds on", "its authorisation", "a higher level of the cluster"}[c]
}

type waiter struct {
	change  Change
	id      ID
	verdict verdict
}

// room is where changes wait for what they build on. Each waits for one thing at a
// time. The limit is kept at the door: a log that is read back from a disk, actor by
// actor, may exceed it for a while.
type room struct {
	limit int
	byID  map[ID]*waiter
	on    map[ID][]*waiter // by the ID that is missing; zero: authorisation or level
}

func newRoom(limit int) room {
	return room{limit: limit, byID: map[ID]*waiter{}, on: map[ID][]*waiter{}}
}

func (r *room) holds(id ID) bool {
	_, ok := r.byID[id]
	return ok
}

func (r *room) enter(w *waiter) {
	r.byID[w.id] = w
	r.on[w.verdict.missing] = append(r.on[w.verdict.missing], w)
}

// take lets out those that wait for an ID.
func (r *room) take(missing ID) []*waiter {
	waiters := r.on[missing]
	delete(r.on, missing)
	for _, w := range waiters {
		delete(r.byID, w.id)
	}
	return waiters
}

// leave lets out those that wait for a cause without an ID.
func (r *room) leave(why cause) []*waiter {
	all := r.on[ID{}]
	var out, rest []*waiter
	for _, w := range all {
		if w.verdict.cause != why {
			rest = append(rest, w)
			continue
		}
		delete(r.byID, w.id)
		out = append(out, w)
	}
	if r.on[ID{}] = rest; len(rest) == 0 {
		delete(r.on, ID{})
	}
	return out
}

// wait lets a change wait.
func (s *State) wait(sl *slot, w *waiter) {
	s.room.enter(w)
	if w.verdict.cause == forLevel {
		sl.held++
	}
}

// HasRoom reports whether so many changes may come whatever they build on.
func (s *State) HasRoom(changes int) bool { return len(s.room.byID)+changes <= s.room.limit }

// Admits reports whether a batch with these changes should be accepted from another
// peer now: there is room for those that would wait, or each builds only on what
// is here or in the batch. What is refused comes again with a later exchange; since
// authors write on top of what they have, some batch is always ready, and the
// room empties.
func (s *State) Admits(changes []Change, ids []ID) bool {
	if s.HasRoom(len(changes)) {
		return true
	}
	coming := make(map[ID]struct{}, len(ids))
	for _, id := range ids {
		coming[id] = struct{}{}
	}
	for i := range changes {
		if !s.ready(&changes[i], coming) {
			return false
		}
	}
	return true
}

// ready reports whether all that a change builds on is here, or coming with it.
func (s *State) ready(c *Change, coming map[ID]struct{}) bool {
	if _, wait := s.permit(c); wait || c.Level > s.level {
		return false
	}
	var line *lineage
	if sl := s.at(c.Object); sl != nil {
		line, _ = sl.incarnation(c.Incarnation)
	}
	for _, id := range append([]ID{c.Incarnation}, c.Parents...) {
		_, comes := coming[id]
		here := line != nil && (id == c.Incarnation || line.find(id) != nil)
		if !comes && !here && !id.IsZero() {
			return false
		}
	}
	return true
}

// Waiting is a change that has no effect yet.
type Waiting struct {
	Object Ref
	Change ID
	Author string
	// For says what it waits for; Missing is the ID of that, if it has one.
	For     string
	Missing ID
}

// Waiting returns all changes that wait, by object and ID.
func (s *State) Waiting() []Waiting {
	all := make([]Waiting, 0, len(s.room.byID))
	for id, w := range s.room.byID {
		all = append(all, Waiting{w.change.Object, id, w.change.Author, w.verdict.cause.String(), w.verdict.missing})
	}
	slices.SortFunc(all, func(a, b Waiting) int {
		if c := a.Object.Compare(b.Object); c != 0 {
			return c
		}
		return bytes.Compare(a.Change[:], b.Change[:])
	})
	return all
}
