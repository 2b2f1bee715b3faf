package peer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// effects is what this machine has made, or was about to make, outside: by object
// identity and step. It is kept on disk before the action starts, so that nothing is
// left behind, whatever the replicated state says later.
type effects map[string]map[string]effect

// effect is enough to take a step back without the object.
type effect struct {
	Ref    crdt.Ref
	Inputs lifecycle.Inputs
}

func effectKey(id, step string) string { return "effect/" + id + "/" + step }

func (f effects) has(id, step string) bool {
	_, ok := f[id][step]
	return ok
}

func (f effects) note(c *Core, ref crdt.Ref, id, step string, in lifecycle.Inputs) {
	in.Previous = nil
	ef := effect{Ref: ref, Inputs: in}
	raw, err := json.Marshal(ef)
	if err != nil {
		panic(fmt.Sprintf("an effect is plain data: %v", err))
	}
	if f[id] == nil {
		f[id] = map[string]effect{}
	}
	f[id][step] = ef
	c.put(effectKey(id, step), raw)
}

func (f effects) forget(c *Core, id, step string) {
	if !f.has(id, step) {
		return
	}
	delete(f[id], step)
	if len(f[id]) == 0 {
		delete(f, id)
	}
	c.put(effectKey(id, step), nil)
}

// inputs returns what the step ran with, which is what undoing it needs.
func (f effects) inputs(id, step string, current lifecycle.Inputs) lifecycle.Inputs {
	if ef, ok := f[id][step]; ok {
		ef.Inputs.Previous = current.Previous
		return ef.Inputs
	}
	return current
}

func (f effects) load(key string, raw []byte) error {
	id, step, ok := strings.Cut(strings.TrimPrefix(key, "effect/"), "/")
	if !ok {
		return fmt.Errorf("key %q is damaged", key)
	}
	var ef effect
	if err := json.Unmarshal(raw, &ef); err != nil {
		return fmt.Errorf("read %q: %w", key, err)
	}
	if f[id] == nil {
		f[id] = map[string]effect{}
	}
	f[id][step] = ef
	return nil
}

// ledger is what this machine has promised to objects, by identity.
type ledger map[string]lifecycle.Reservation

func (l ledger) sum(exceptID string) (sum lifecycle.Reservation) {
	for id, r := range l {
		if id != exceptID {
			sum = sum.Add(r)
		}
	}
	return sum
}

// hold enters a promise that was just made.
func (e *engine) hold(t *tracked, _ lifecycle.Outputs) {
	if t.kind.Reservation == nil {
		return
	}
	r := t.kind.Reservation(t.snap.Fields)
	if old, ok := e.held[t.snap.ID]; ok && old == r {
		return
	}
	e.held[t.snap.ID] = r
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a reservation is plain data: %v", err))
	}
	e.c.put("held/"+t.snap.ID, raw)
}

// release strikes a promise out once the object is placed elsewhere or gone, and
// nothing of it is left here.
func (e *engine) release(t *tracked) {
	if _, ok := e.held[t.snap.ID]; !ok || len(e.effects[t.snap.ID]) > 0 || len(t.running) > 0 {
		return
	}
	if !t.eval.Gone && !t.snap.Deleted && e.machineOf(t.ref, t.snap) == e.c.self.Name {
		return
	}
	e.strike(t.snap.ID)
}

func (e *engine) strike(id string) {
	if _, ok := e.held[id]; !ok {
		return
	}
	delete(e.held, id)
	e.c.put("held/"+id, nil)
	e.wakeTopic(kindTopic("Pod"))
}

// recover reads what an earlier life of this peer left.
func (e *engine) recover(local map[string][]byte) error {
	for _, key := range slices.Sorted(maps.Keys(local)) {
		switch {
		case strings.HasPrefix(key, "effect/"):
			if err := e.effects.load(key, local[key]); err != nil {
				return err
			}
		case strings.HasPrefix(key, "held/"):
			var r lifecycle.Reservation
			if err := json.Unmarshal(local[key], &r); err != nil {
				return fmt.Errorf("read %q: %w", key, err)
			}
			e.held[strings.TrimPrefix(key, "held/")] = r
		}
	}
	for _, id := range sortedKeys(e.effects) {
		for _, ef := range e.effects[id] {
			e.mark(ef.Ref)
		}
	}
	e.sortQueue()
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// undoForeignLives takes back what this machine made for another life of the name:
// one that was deleted, or lost the name to a concurrent creation.
func (e *engine) undoForeignLives(t *tracked) {
	for _, id := range sortedKeys(e.effects) {
		if t.snap != nil && t.snap.ID == id || !e.belongs(id, t.ref) {
			continue
		}
		for _, name := range t.kind.Graph.Downward() {
			if !e.effects.has(id, name) {
				continue
			}
			e.undoStray(t, id, name)
			break
		}
	}
}

func (e *engine) belongs(id string, ref crdt.Ref) bool {
	for _, ef := range e.effects[id] {
		return ef.Ref == ref
	}
	return false
}

func (e *engine) undoStray(t *tracked, id, name string) {
	step, ok := t.kind.Graph.Step(name)
	if _, busy := t.running[name]; busy || !ok || !e.strayDue(t, &step) {
		return
	}
	e.lastID++
	e.launch(&action{
		id: e.lastID, t: t, objectID: id, step: &step, undo: true, stray: true,
		inputs: e.effects[id][name].Inputs, started: e.c.now,
	})
	if len(e.effects[id]) == 1 {
		e.strike(id)
	}
}

// strayDue keeps failing clean-ups from being repeated at once.
func (e *engine) strayDue(t *tracked, step *lifecycle.Step) bool {
	try := t.tries[step.Name]
	if try == nil || !e.c.now.Before(try.next) {
		return true
	}
	e.wakes.add(try.next, t.ref)
	return false
}
