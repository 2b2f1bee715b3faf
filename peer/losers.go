package peer

import (
	"cmp"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// losers are the deletions of what was created beside the object, in another part of a
// cluster that was cut, and lost the name to it. Whoever deletes the name means whatever
// has it, so that a deletion starts nothing. Whoever states the spec says which of them is
// meant, as with two values of one field. What their author has not heard of stays.
func (w *writes) losers(edit Edit, ch crdt.Change) []crdt.Change {
	o, live := w.live(ch.Object)
	if !live || edit.Kind != EditApply && edit.Kind != EditDelete {
		return nil
	}
	var deletions []crdt.Change
	for _, loser := range o.Losers() {
		if api.SpecOwner(ch.Object.Kind, loser.Creator) != api.People {
			continue // its loop settles that
		}
		note := cmp.Or(ch.Message, "it lost its name to the one that "+o.Creator()+" created")
		for _, life := range w.c.journal.state.Incarnations(ch.Object) {
			if life.ID() == loser.ID {
				deletions = append(deletions, crdt.Change{
					Object: ch.Object, Incarnation: loser.ID, Parents: life.Heads(), Author: ch.Author, Message: note, Set: ch.Set,
					Ops: []crdt.Op{{Kind: crdt.OpDelete}},
				})
			}
		}
	}
	return deletions
}
