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
// time. Invariant: len(byID) <= limit.
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

func (r *room) enter(w *waiter) bool {
	if len(r.byID) >= r.limit {
		return false
	}
	r.byID[w.id] = w
	r.on[w.verdict.missing] = append(r.on[w.verdict.missing], w)
	return true
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

// wait lets a change wait; false if there is no room.
func (s *State) wait(sl *slot, w *waiter) bool {
	if !s.room.enter(w) {
		return false
	}
	if w.verdict.cause == forLevel {
		sl.held++
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
