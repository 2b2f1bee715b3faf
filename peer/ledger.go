package peer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/lifecycle"
)

// ledger is what this machine has promised to objects, by identity.
type ledger struct {
	byID  map[string]lifecycle.Reservation
	total lifecycle.Reservation
}

func newLedger() *ledger { return &ledger{byID: map[string]lifecycle.Reservation{}} }

// sum is everything that was promised, except to one object.
func (l *ledger) sum(exceptID string) lifecycle.Reservation { return l.total.Sub(l.byID[exceptID]) }

func (l *ledger) set(id string, r lifecycle.Reservation) {
	l.total = l.total.Sub(l.byID[id]).Add(r)
	l.byID[id] = r
}

func (l *ledger) strike(id string) {
	l.total = l.total.Sub(l.byID[id])
	delete(l.byID, id)
}

const heldPrefix = "held/"

// hold enters a promise that was just made. As long as containers may run that were
// given more, what they were given counts.
func (e *engine) hold(t *tracked, _ lifecycle.Outputs) {
	if t.kind.Reservation == nil {
		return
	}
	r, old := t.kind.Reservation(t.snap().Fields), e.held.byID[t.snap().ID]
	e.promise(t.snap().ID, r.Most(old))
}

// tighten lets go of what an object was given and no longer uses, now that it runs as
// it should.
func (e *engine) tighten(t *tracked) {
	old, ok := e.held.byID[t.snap().ID]
	if !ok || t.kind.Reservation == nil || t.verdict != lifecycle.Converged || t.gone {
		return
	}
	if r := t.kind.Reservation(t.snap().Fields); !r.Equal(old) && t.machine() == e.c.self.Name {
		e.promise(t.snap().ID, r)
		e.wakeTopic(kindTopic("Pod"))
	}
}

func (e *engine) promise(id string, r lifecycle.Reservation) {
	if old, ok := e.held.byID[id]; ok && old.Equal(r) {
		return
	}
	e.held.set(id, r)
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a reservation is plain data: %v", err))
	}
	e.c.put(heldPrefix+id, raw)
}

// release strikes a promise out once the object is placed elsewhere or gone, and
// nothing of it is left here.
func (e *engine) release(t *tracked) {
	if _, ok := e.held.byID[t.snap().ID]; !ok || e.effects.any(t.snap().ID) || len(t.running) > 0 {
		return
	}
	if !t.gone && !t.snap().Deleted && t.machine() == e.c.self.Name {
		return
	}
	e.strike(t.snap().ID)
}

func (e *engine) strike(id string) {
	if _, ok := e.held.byID[id]; !ok {
		return
	}
	e.held.strike(id)
	e.c.put(heldPrefix+id, nil)
	e.wakeTopic(kindTopic("Pod"))
}

// recover reads what an earlier life of this peer left.
func (e *engine) recover(local map[string][]byte) error {
	for _, key := range slices.Sorted(maps.Keys(local)) {
		switch {
		case strings.HasPrefix(key, effectPrefix):
			if err := e.effects.load(key, local[key]); err != nil {
				return err
			}
		case strings.HasPrefix(key, heldPrefix):
			var r lifecycle.Reservation
			if err := json.Unmarshal(local[key], &r); err != nil {
				return fmt.Errorf("read %q: %w", key, err)
			}
			e.held.set(strings.TrimPrefix(key, heldPrefix), r)
		}
	}
	for id, steps := range e.effects.byID {
		for step, ef := range steps {
			e.c.leases.want(id, step, ef)
		}
	}
	for ref := range e.effects.lives {
		e.mark(ref)
	}
	e.sortQueue()
	return nil
}

// sortedKeys lists the keys of a map in order, usually of an empty one.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
