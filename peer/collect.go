package peer

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
)

// What loops made, and what is deleted and taken down, is collected after a hold: nothing is
// left of it but the stubs in the log. The machine that wrote its creation covers that, for
// then nothing of the incarnation counts any more (crdt.State.Collect); once that is in
// effect, every machine covers what else it wrote about it, and says what it presumes.

// collectedPrefix begins the keys of incarnations whose creation is covered, until this
// machine has gone through its own logs for them.
const collectedPrefix = "collected/"

func isLoop(author string) bool { return strings.HasPrefix(author, loopAuthor) }

// settles puts what is covered of what was folded into effect, if that can be done one by
// one, and reports whether it did.
func (k *compaction) settles(ch decoded) bool {
	switch {
	case !ch.readable:
		return false
	case ch.Incarnation.IsZero():
		return k.collect(ch)
	}
	return k.superseded(ch) || k.c.journal.state.Void(ch.Change, ch.id)
}

// collect drops an incarnation whose creation is covered. What is being taken down here is
// waited for. What is alive here is over all the same: its deletion was covered before
// it came, or its maker takes it back.
func (k *compaction) collect(ch decoded) bool {
	e := k.c.engine
	o, ok := k.c.journal.state.Incarnation(ch.Object, ch.id)
	if !ok {
		return false
	}
	remember := func() { k.c.put(collectedPrefix+hex.EncodeToString(ch.id[:]), slices.Clone(ch.At.Actor[:])) }
	if o.Deleted() && !e.dispensable(o) {
		remember() // the next life folds the log without it
		return false
	}
	if !k.c.journal.state.Collect(ch.Object, ch.id) {
		return false
	}
	remember()
	k.collected[ch.id] = ch.At.Actor
	if id := shortID(o); !e.effects.any(id) {
		e.strike(id)
	}
	e.changed(ch.Object)
	return true
}

// passed notes a covered entry that is not folded: it may be what others wait for.
func (k *compaction) passed(actor crdt.ActorID, id crdt.ID) {
	if k.c.journal.state.Abandon(id) {
		k.collected[id] = actor
		k.c.put(collectedPrefix+hex.EncodeToString(id[:]), slices.Clone(actor[:]))
	}
}

// loadCollected reads what an earlier life collected: the log is folded without it now.
func (k *compaction) loadCollected(key string, value []byte) error {
	name, ok := strings.CutPrefix(key, collectedPrefix)
	if !ok {
		return nil
	}
	raw, err := hex.DecodeString(name)
	var id crdt.ID
	var actor crdt.ActorID
	if err != nil || copy(id[:], raw) != len(id) || copy(actor[:], value) != len(actor) {
		return fmt.Errorf("key %q is damaged", key)
	}
	k.collected[id] = actor
	return nil
}

// passedOver forgets what a pass has found all entries of.
func (k *compaction) passedOver(p *pass) {
	for id := range p.of { // each by itself, whatever the order
		delete(k.collected, id)
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.of), crdt.ID.Compare) {
		k.c.put(collectedPrefix+hex.EncodeToString(id[:]), nil)
	}
}

// presumes says on which covered creations it rests that entries of a log are covered.
func (k *compaction) presumes(p *pass, actor crdt.ActorID) (all []crdt.Presumed) {
	counts := map[crdt.ActorID]uint64{}
	if l := k.logs[actor]; l != nil {
		for _, st := range l.said {
			for _, old := range st.Presumes {
				counts[old.Actor] = max(counts[old.Actor], old.Count)
			}
		}
	}
	for creation := range p.founded[actor] {
		if l := k.logs[creation]; l != nil {
			counts[creation] = l.covered.Len()
		}
	}
	for _, other := range sortedActors(counts) {
		all = append(all, crdt.Presumed{Actor: other, Count: counts[other]})
	}
	return all
}

// due reports whether there is anything new to collect.
func (k *compaction) due(hold time.Duration) (due bool) {
	o := &k.own
	due = len(k.collected) > 0
	considered := map[crdt.ID]bool{}
	for ref, t := range k.c.engine.objects { // each by itself, whatever the order
		if t.life == 0 || t.parent == "" || !t.gone && !k.succeeded[ref] {
			continue
		}
		lives := k.c.journal.state.Incarnations(ref)
		if len(lives) == 1 {
			delete(k.succeeded, ref)
		}
		for _, life := range lives {
			if id := life.ID(); o.considered[id] || k.over(ref, id, hold) {
				due = due || !o.considered[id]
				considered[id] = true
			}
		}
	}
	o.considered = considered
	return due
}

// ends reports whether a change of this machine made what may be collected.
func (k *compaction) ends(ch decoded, hold time.Duration) bool {
	return ch.Incarnation.IsZero() && isLoop(ch.Author) && k.over(ch.Object, ch.id, hold)
}

// over reports whether an incarnation has ended, for as long as the hold lasts, and all that
// was made for it is gone. What has children stays: those that a partition kept from
// being seen are to find that it is deleted.
func (k *compaction) over(ref crdt.Ref, created crdt.ID, hold time.Duration) bool {
	t := k.c.engine.objects[ref]
	latest, ended := k.c.journal.state.Ended(ref, created)
	if !ended || t == nil || crdt.Millis(latest) > k.c.now.Add(-hold).UnixMilli() || t.kind.Graph.Parental() {
		return false
	}
	o, ok := k.c.journal.state.Incarnation(ref, created)
	return ok && k.c.engine.dispensable(o) && !k.c.engine.effects.any(shortID(o))
}

// dispensable reports whether nothing has to be done any more for what is deleted. Of several
// incarnations of a name the one that is taken down for all to see goes last: it would leave
// that to another, which was taken down without.
func (e *engine) dispensable(o *crdt.Object) bool {
	t := e.objects[o.Ref()]
	if t == nil || t.life != lifeOf(o) {
		return true
	}
	others := func(i *crdt.Object) bool { return i.ID() != o.ID() }
	return t.gone && !slices.ContainsFunc(e.c.journal.state.Incarnations(o.Ref()), others)
}

// forget lets go of a name of which there is no object any more, once nothing goes on.
func (e *engine) forget(t *tracked) {
	if len(t.running) == 0 && len(e.effects.lives[t.ref]) == 0 && e.objects[t.ref] == t {
		delete(e.objects, t.ref)
	}
}
