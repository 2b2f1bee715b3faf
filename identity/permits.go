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

// maxVerdicts bounds what Permits remembers.
const maxVerdicts = 8192

// verdictKey is all that the verdict of Permits depends on.
type verdictKey struct {
	seen   crdt.ID // digest of the authorisation heads
	signer crdt.MachineID
}

// Permits decides whether a change is within its signer's authority as its author saw
// it: nil, an error that wraps [ErrRefused] with the reason, or crdt.ErrNotYet while
// the authorisation heads that it names are not here. Only what those heads reach
// is looked at, so the verdict is final: nothing that arrives later alters it, and all
// replicas agree on it at once.
//
// Cuts that the author had not seen are the business of [Snapshot.PermitsAt]. A
// person is vouched for by the machine that signed (docs/adr/0030). Signatures are
// checked by package crdt.
func (l *Log) Permits(c crdt.Change) error {
	key := verdictKey{digest(l.id, c.Auth), c.Signer}
	why, known := l.verdicts[key]
	if !known {
		s := l.Snapshot()
		seen, err := s.reach(c.Auth)
		if err != nil {
			return err
		}
		why = s.judge.within(seen).refuseSigner(c.Signer, seen)
		if len(l.verdicts) >= maxVerdicts {
			clear(l.verdicts)
		}
		l.verdicts[key] = why
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrRefused, why)
	}
	return nil
}

// refuseSigner says why a machine had no authority at one place; "" if it had.
func (v *view) refuseSigner(m crdt.MachineID, seen past) string {
	if !v.admitted(m, seen) {
		return fmt.Sprintf("machine %s, which signed it, was not admitted in what it names as seen", m)
	}
	for _, c := range v.cutsOf(m) {
		if seen.has(c) && !v.restored(m, c, seen) {
			return fmt.Sprintf("machine %s, which signed it, was removed by record %s", m, v.nodes[c].rec.id)
		}
	}
	return ""
}

// Entry is where a change stands: in which actor's log, at which place.
type Entry struct {
	Actor crdt.ActorID
	crdt.Head
}

// PermitsAt decides as [Log.Permits] does, and also holds the change against every
// valid cut of its signer, seen by its author or not. The verdict follows from the
// change, its entry and the set of records, so that replicas with the same records
// agree; it can change when a record arrives, and whoever keeps verdicts judges the
// machines in [Snapshot.Changed] again.
func (s *Snapshot) PermitsAt(c crdt.Change, at Entry) error {
	seen, err := s.reach(c.Auth)
	if err != nil {
		return err
	}
	if why := s.judge.refuseSigner(c.Signer, seen); why != "" {
		return fmt.Errorf("%w: %s", ErrRefused, why)
	}
	for _, cut := range s.judge.cutsOf(c.Signer) {
		nd := s.judge.nodes[cut]
		r, _ := removal(nd.rec.Body)
		if !r.spares(c.Author, at) && !s.judge.restored(c.Signer, cut, seen) {
			return fmt.Errorf("%w: it lies outside the cut of machine %s, which signed it, by record %s", ErrRefused, c.Signer, nd.rec.id)
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
			return nil, fmt.Errorf("%w: authorisation record %s", crdt.ErrNotYet, h)
		}
		pasts = append(pasts, s.judge.nodes[i].past)
		points = append(points, i)
	}
	return union(pasts, points), nil
}

// Changed lists, ascending, the machines whose earlier changes PermitsAt may judge
// otherwise than in an older snapshot of the same log: a cut became valid or void, was
// lifted, or an admission lost or gained its standing.
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
	slices.SortFunc(out, crdt.ID.Compare)
	return out
}
