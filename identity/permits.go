package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/crdt"
)

// personPrefix begins the authors that are people.
const personPrefix = "user:"

// Entry is where a change stands: in which actor's log, at which place.
type Entry struct {
	Actor crdt.ActorID
	crdt.Head
}

// Permits decides whether a change counts: nil, or an error that wraps ErrRefused
// with the reason, or ErrAuthMissing if the change must wait for records. The verdict
// depends on the change, its entry and the set of records, so that all replicas judge
// alike. It can change when a removal or a restoration arrives; see [Snapshot.Changed].
//
// The change's signatures, and that a loop's signer is the machine of the actor, are
// the log's business (package crdt), not checked here. A person is vouched for by
// the machine that signed (docs/adr/0030).
func (s *Snapshot) Permits(c crdt.Change, at Entry) error {
	seen, err := s.reach(c.Auth)
	if err != nil {
		return err
	}
	if !s.judge.admitted(c.Signer, seen) {
		return fmt.Errorf("%w: machine %s, which signed it, was not admitted in what it names as seen", ErrRefused, c.Signer)
	}
	for _, cut := range s.judge.cutsOf(c.Signer) {
		if s.judge.restored(c.Signer, cut, seen) {
			continue
		}
		r, _ := removal(s.judge.nodes[cut].rec.Body)
		if seen.has(cut) || !r.spares(c.Author, at) {
			return fmt.Errorf("%w: machine %s, which signed it, was removed by record %s", ErrRefused, c.Signer, s.judge.nodes[cut].rec.id)
		}
	}
	return nil
}

// spares reports whether a change from before or beside a removal still counts: one
// inside the cut does, and so does a person's, unless the machine is distrusted.
func (r Remove) spares(author string, at Entry) bool {
	if !r.Distrust && strings.HasPrefix(author, personPrefix) {
		return true
	}
	end, listed := r.Cut[at.Actor]
	return listed && (at.Seq < end.Seq || at.Head == end)
}

// reach is what a change's author had seen of the log.
func (s *Snapshot) reach(heads []crdt.ID) (past, error) {
	var pasts []past
	var points []int
	for _, h := range heads {
		i, ok := s.judge.index[h]
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrAuthMissing, h)
		}
		pasts = append(pasts, s.judge.nodes[i].past)
		points = append(points, i)
	}
	return union(pasts, points), nil
}

// Changed lists, ascending, the machines whose earlier changes may be judged otherwise
// than in an older snapshot of the same log: a cut became valid or void, was lifted, or
// an admission lost or gained its standing.
func (s *Snapshot) Changed(old *Snapshot) []crdt.MachineID {
	ids := map[crdt.MachineID]bool{}
	for _, in := range []*Snapshot{s, old} {
		for id := range in.judge.admits {
			ids[id] = true
		}
	}
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(ids), compareMachines), func(id crdt.MachineID) bool {
		return slices.Equal(s.standing(id), old.standing(id))
	})
}

// standing is the records that decide what a machine's changes are worth.
func (s *Snapshot) standing(id crdt.MachineID) []crdt.ID {
	var out []crdt.ID
	for _, i := range append(s.judge.counting(s.judge.admits[id]), s.judge.cutsOf(id)...) {
		out = append(out, s.judge.nodes[i].rec.id)
	}
	slices.SortFunc(out, compareIDs)
	return out
}
