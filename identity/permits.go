package identity

import (
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/crdt"
)

// personPrefix begins the authors that are people.
const personPrefix = "user:"

// maxVerdicts bounds what Permits remembers.
const maxVerdicts = 8192

// verdictKey is all that the part of a verdict that is remembered depends on, besides the
// records.
type verdictKey struct {
	seen   crdt.ID // digest of the authorisation heads
	signer crdt.MachineID
}

// Permits decides whether a change counts at its place: nil, an error that wraps
// [ErrRefused] with the reason, or crdt.ErrNotYet while the authorisation heads that it
// names are not here. Its machine must have had authority as the author saw it, and the
// entry must lie inside every valid cut of the machine, seen by the author or not. A
// person is vouched for by the machine (docs/adr/0030).
//
// The verdict follows from the change, its place and the set of records, so that replicas
// with the same records agree. It can change when a record arrives: who keeps verdicts
// compares [Snapshot.Standing] before and after.
func (l *Log) Permits(c crdt.Change) error {
	s := l.Snapshot()
	key := verdictKey{digest(l.id, c.Auth), c.At.Machine}
	why, known := l.verdicts[key]
	if !known {
		seen, err := s.reach(c.Auth)
		if err != nil {
			return err
		}
		why = s.judge.refuseSigner(c.At.Machine, seen)
		if len(l.verdicts) >= maxVerdicts {
			clear(l.verdicts)
		}
		l.verdicts[key] = why
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrRefused, why)
	}
	return s.inside(c)
}

// inside holds a change against every valid cut of its machine.
func (s *Snapshot) inside(c crdt.Change) error {
	for _, cut := range s.judge.cutsOf(c.At.Machine) {
		nd := s.judge.nodes[cut]
		if r, _ := removal(nd.rec.Body); r.spares(c.Author, c.At) {
			continue
		}
		seen, err := s.reach(c.Auth)
		if err != nil {
			return err
		}
		if !s.judge.restored(c.At.Machine, cut, seen) {
			return fmt.Errorf("%w: it lies outside the cut of machine %s, in whose log it stands, by record %s", ErrRefused, c.At.Machine, nd.rec.id)
		}
	}
	return nil
}

// refuseSigner says why a machine had no authority at one place; "" if it had.
func (v *view) refuseSigner(m crdt.MachineID, seen past) string {
	if !v.admitted(m, seen) {
		return fmt.Sprintf("machine %s, in whose log it stands, was not admitted in what it names as seen", m)
	}
	for _, c := range v.cutsOf(m) {
		if seen.has(c) && !v.restored(m, c, seen) {
			return fmt.Sprintf("machine %s, in whose log it stands, was removed by record %s", m, v.nodes[c].rec.id)
		}
	}
	return ""
}

// spares reports whether a change from before or beside a removal still counts: one
// inside the cut does, and so does a person's, unless the machine is distrusted.
func (r Remove) spares(author string, at crdt.Place) bool {
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

// Standing lists the records that decide what the entries of an actor are worth, up to
// and including the one at a place: the admissions of its machine that count, and the cuts that
// leave some of the entries out. While it stays the same, so do all verdicts of
// [Log.Permits] about them.
func (s *Snapshot) Standing(at crdt.Place) []crdt.ID {
	var out []crdt.ID
	for _, i := range s.judge.counting(s.judge.admits[at.Machine]) {
		out = append(out, s.judge.nodes[i].rec.id)
	}
	for _, i := range s.judge.cutsOf(at.Machine) {
		if r, _ := removal(s.judge.nodes[i].rec.Body); !r.spares("", at) {
			out = append(out, s.judge.nodes[i].rec.id)
		}
	}
	slices.SortFunc(out, crdt.ID.Compare)
	return out
}
