package peer

import (
	"starling.dev/starling/lifecycle"
)

// A disk that is an older copy of itself may know nothing of containers that run on its
// machine. So each life begins with a look at the machine: what the disk does not know of
// is removed, and what it knows of is counted with what it was given in fact. What is
// held already goes on meanwhile; nothing new is begun, and nothing taken away that
// containers which the disk does not know of may stand on.

// awaitsSweep reports whether a run has to wait until the machine was looked over.
func (e *engine) awaitsSweep(t *tracked, run lifecycle.Run) bool {
	switch {
	case !e.unswept || t.kind.Reservation == nil:
		return false
	case run.Undo: // though the disk knows of nothing: it may be older than all that runs
		return true
	}
	return run.Step.Reserves || run.Step.Undo != nil && !e.effects.has(t.snap().ID, run.Step.Name)
}

// swept counts what runs, and begins with what waited.
func (e *engine) swept(s Swept) {
	e.unswept = false
	for _, id := range sortedKeys(s.Runs) {
		e.promise(id, e.held.byID[id].Most(s.Runs[id]))
	}
	for ref := range e.effects.lives { // what goes with the last of them is struck out
		e.mark(ref)
	}
	e.wakeIndex(e.placed, e.c.self.Name)
	e.sortQueue()
}
