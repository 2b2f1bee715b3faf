package peer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// effects is what this machine has made, or was about to make, outside: by object
// identity and step. It is kept on disk before the action starts, so that nothing is
// left behind, whatever the replicated state says later.
type effects struct {
	byID map[string]map[string]effect
	// lives lists, by name, the identities that have effects here.
	lives map[crdt.Ref][]string
}

// effect is enough to take a step back without the object.
type effect struct {
	Ref    crdt.Ref
	Inputs lifecycle.Inputs
	// Back: taking it back was begun for a life that did not have the name. Nobody can say
	// how much of it is left, should that life get the name after all.
	Back bool `json:",omitempty"`
}

func newEffects() *effects {
	return &effects{byID: map[string]map[string]effect{}, lives: map[crdt.Ref][]string{}}
}

const effectPrefix = "effect/"

func effectKey(id, step string) string { return effectPrefix + id + "/" + step }

func (f *effects) has(id, step string) bool {
	_, ok := f.byID[id][step]
	return ok
}

// any reports whether anything is here for the object.
func (f *effects) any(id string) bool { return len(f.byID[id]) > 0 }

func (f *effects) put(id, step string, ef effect) {
	if f.byID[id] == nil {
		f.byID[id] = map[string]effect{}
		f.lives[ef.Ref] = append(f.lives[ef.Ref], id)
	}
	f.byID[id][step] = ef
}

func (f *effects) note(c *Core, ref crdt.Ref, id, step string, in lifecycle.Inputs) {
	in.Previous = nil
	ef := effect{Ref: ref, Inputs: in}
	c.leases.want(id, step, ef)
	f.keep(c, id, step, ef)
}

// keep notes an effect here and on the disk.
func (f *effects) keep(c *Core, id, step string, ef effect) {
	raw, err := json.Marshal(ef)
	if err != nil {
		panic(fmt.Sprintf("an effect is plain data: %v", err))
	}
	f.put(id, step, ef)
	c.put(effectKey(id, step), raw)
}

func (f *effects) forget(c *Core, id, step string) {
	ef, ok := f.byID[id][step]
	if !ok {
		return
	}
	delete(f.byID[id], step)
	if len(f.byID[id]) == 0 {
		delete(f.byID, id)
		f.lives[ef.Ref] = slices.DeleteFunc(f.lives[ef.Ref], func(other string) bool { return other == id })
		if len(f.lives[ef.Ref]) == 0 {
			delete(f.lives, ef.Ref)
		}
	}
	c.leases.drop(id, step)
	c.put(effectKey(id, step), nil)
}

// inputs returns what the step ran with, which is what undoing it needs.
func (f *effects) inputs(id, step string, current lifecycle.Inputs) lifecycle.Inputs {
	if ef, ok := f.byID[id][step]; ok {
		ef.Inputs.Previous = current.Previous
		return ef.Inputs
	}
	return current
}

func (f *effects) load(key string, raw []byte) error {
	id, step, ok := strings.Cut(strings.TrimPrefix(key, effectPrefix), "/")
	if !ok {
		return fmt.Errorf("key %q is damaged", key)
	}
	var ef effect
	if err := json.Unmarshal(raw, &ef); err != nil {
		return fmt.Errorf("read %q: %w", key, err)
	}
	f.put(id, step, ef)
	return nil
}

// undoForeignLives takes back what this machine made for another life of the name:
// one that was deleted, or lost the name to a concurrent creation. That one may come back.
func (e *engine) undoForeignLives(t *tracked) {
	e.goOnDisclaiming(t)
	lives := e.effects.lives[t.ref]
	if len(lives) == 0 {
		return
	}
	for _, id := range slices.Sorted(slices.Values(lives)) { // a copy: the list may shrink meanwhile
		if t.snap() != nil && t.snap().ID == id {
			continue
		}
		for _, name := range t.kind.Graph.Downward() {
			if e.effects.has(id, name) {
				e.undoStray(t, id, name)
				break
			}
		}
	}
}

func (e *engine) undoStray(t *tracked, id, name string) {
	step, ok := t.kind.Graph.Step(name)
	if _, busy := t.running[name]; busy || !ok || e.unswept && t.kind.Reservation != nil || !e.strayDue(t, &step) {
		return
	}
	ef := e.effects.byID[id][name]
	if !ef.Back {
		ef.Back = true
		e.effects.keep(e.c, id, name, ef)
	}
	delete(t.adopted, name)
	e.lastID++
	e.launch(&action{
		id: e.lastID, t: t, objectID: id, step: &step, undo: true, stray: true, inputs: ef.Inputs, started: e.c.now,
	})
	if len(e.effects.byID[id]) == 1 {
		e.strike(id)
	}
}

// strayDue keeps failing clean-ups from being repeated at once.
func (e *engine) strayDue(t *tracked, step *lifecycle.Step) bool {
	try := t.tries[step.Name]
	if try == nil || !e.c.now.Before(try.next) {
		return true
	}
	e.wakes.add(try.next, t)
	return false
}

// result tells one register of a step from another. A register that an earlier life of this
// peer wrote may come back from others after this one has looked at the machine: then it has
// to look again, since its disk knew another spec.
type result struct {
	attempt  uint64
	finished time.Time
}

func resultOf(o *lifecycle.Object, step string) result {
	r := o.Results[step]
	return result{r.Attempt, r.Finished}
}
