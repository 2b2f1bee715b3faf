package identity

import (
	"cmp"
	"fmt"
	"slices"

	"starling.dev/starling/crdt"
)

// judge decides which records count. Its verdicts are a function of the set of
// records, by these rules:
//
//  1. A root's record counts.
//  2. A machine's record counts if the machine was admitted in the record's past by
//     an admission that counts, if the kind of record is its to issue, and if no
//     valid cut of the machine blocks the record.
//  3. A cut blocks a record of its machine unless the record lies in the cut's past,
//     or a root admitted the machine again, having seen the cut, in the record's
//     past.
//  4. A root's cut is valid. A machine's cut is valid if rule 2 holds for it looking
//     only at the cut's own past and at the roots' cuts. So two machines of equal
//     rank that remove each other are both removed, and only a root settles it.
//
// Rule 4 is what keeps the rules from running in a circle: whether a cut is valid
// never depends on another machine's cut that it had not seen.
type judge struct {
	genesis Genesis
	nodes   []*node
	index   map[crdt.ID]int
	// Positions, ascending, by the machine concerned, whether they count or not.
	admits      map[crdt.MachineID][]int
	cuts        map[crdt.MachineID][]int
	delegations map[crdt.MachineID][]int
	renames     map[crdt.MachineID][]int
	// uses lists the admissions that name a grant.
	uses map[crdt.ID][]int
	// cutVerdicts is what rule 4 has found so far: "" for a valid cut, else why not.
	cutVerdicts map[int]string
}

func newJudge(g Genesis, nodes []*node) *judge {
	j := &judge{
		genesis:     g,
		nodes:       nodes,
		index:       make(map[crdt.ID]int, len(nodes)),
		admits:      map[crdt.MachineID][]int{},
		cuts:        map[crdt.MachineID][]int{},
		delegations: map[crdt.MachineID][]int{},
		renames:     map[crdt.MachineID][]int{},
		uses:        map[crdt.ID][]int{},
		cutVerdicts: map[int]string{},
	}
	for i, nd := range nodes {
		j.file(i, nd)
	}
	return j
}

func (j *judge) file(i int, nd *node) {
	j.index[nd.rec.id] = i
	if r, ok := removal(nd.rec.Body); ok {
		j.cuts[r.Machine] = append(j.cuts[r.Machine], i)
	}
	if a, ok := admission(nd.rec.Body); ok {
		subject := IDOf(a.PublicKey)
		j.admits[subject] = append(j.admits[subject], i)
		j.uses[a.Grant] = append(j.uses[a.Grant], i)
	}
	switch b := nd.rec.Body.(type) {
	case Delegate:
		j.delegations[b.Machine] = append(j.delegations[b.Machine], i)
	case Rename:
		j.renames[b.Machine] = append(j.renames[b.Machine], i)
	}
}

// refuseCut is rule 4: why a cut is not valid; "" if it is.
func (j *judge) refuseCut(cut int) string {
	if known, ok := j.cutVerdicts[cut]; ok {
		return known
	}
	nd := j.nodes[cut]
	r, _ := removal(nd.rec.Body)
	v := j.view(nd.past)
	why := v.refuseIssuer(cut, nd)
	if why == "" {
		why = v.refuseRemoval(nd, r)
	}
	j.cutVerdicts[cut] = why
	return why
}

// restored reports whether a root, having seen a cut, admitted the machine again
// within a past.
func (j *judge) restored(m crdt.MachineID, cut int, within past) bool {
	return slices.ContainsFunc(j.admits[m], func(a int) bool {
		nd := j.nodes[a]
		return nd.root && within.has(a) && nd.past.has(cut)
	})
}

// view is the log as seen at one place: by a cut (its past and the roots' cuts), or by
// a reader (everything).
type view struct {
	*judge
	limit    past
	verdicts map[int]string // why a record does not count; "" if it does
}

func (j *judge) view(limit past) *view {
	return &view{judge: j, limit: limit, verdicts: map[int]string{}}
}

// cutsOf returns the valid cuts of a machine that this view contains, in order.
func (v *view) cutsOf(m crdt.MachineID) []int {
	var out []int
	for _, c := range v.cuts[m] {
		if v.sees(c) && v.refuseCut(c) == "" {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, v.before)
	return out
}

// sees reports whether a cut belongs to the view: to its limit, or to the roots' cuts.
func (v *view) sees(c int) bool {
	return v.limit.has(c) || v.nodes[c].root
}

// before orders records by (stamp, ID), the order that settles every contest.
func (j *judge) before(a, b int) int {
	x, y := j.nodes[a], j.nodes[b]
	return cmp.Or(cmp.Compare(x.stamp, y.stamp), crdt.ID.Compare(x.rec.id, y.rec.id))
}

// refuse says why a record has no effect; "" if it counts. For a Replace it speaks of
// the admission; the removal has rule 4.
func (v *view) refuse(i int) string {
	if why, ok := v.verdicts[i]; ok {
		return why
	}
	why := v.judgeRecord(i)
	v.verdicts[i] = why
	return why
}

func (v *view) judgeRecord(i int) string {
	if _, ok := v.nodes[i].rec.Body.(Remove); ok {
		return v.refuseCut(i)
	}
	return v.refuseNode(i, v.nodes[i])
}

// preview judges a record that is not in the log, but would have seen all of it. With
// everything in its past, rule 4 is no different from the others.
func (v *view) preview(nd *node) string { return v.refuseNode(len(v.nodes), nd) }

func (v *view) refuseNode(i int, nd *node) string {
	if why := v.refuseIssuer(i, nd); why != "" {
		return why
	}
	return v.refuseBody(nd)
}

// refuseIssuer is rules 1, 2 and 3 but for the kind of record.
func (v *view) refuseIssuer(i int, nd *node) string {
	if nd.root {
		return ""
	}
	if !v.admitted(nd.issuer, nd.past) {
		return fmt.Sprintf("machine %s, which issued it, was not admitted", nd.issuer)
	}
	for _, c := range v.cutsOf(nd.issuer) {
		if !v.nodes[c].past.has(i) && !v.restored(nd.issuer, c, nd.past) {
			return fmt.Sprintf("machine %s, which issued it, was removed by record %s", nd.issuer, v.nodes[c].rec.id)
		}
	}
	return ""
}

// admitted reports whether an admission of a machine within a past counts.
func (v *view) admitted(m crdt.MachineID, within past) bool {
	return slices.ContainsFunc(v.admits[m], func(a int) bool {
		return within.has(a) && v.refuse(a) == ""
	})
}

// refuseBody is the part of rule 2 that depends on the kind of record.
func (v *view) refuseBody(nd *node) string {
	switch b := nd.rec.Body.(type) {
	case Admit:
		return v.refuseAdmission(nd, b)
	case Replace:
		if why := v.refuseAdmission(nd, b.Admit); why != "" {
			return why
		}
		return v.refuseRemoval(nd, b.Remove)
	case Remove:
		return v.refuseRemoval(nd, b)
	case Rename:
		return v.refuseUnlessOwn(nd, b.Machine)
	case Voters:
		return v.refuseVoters(nd, b)
	case Grant:
		return v.refuseUnlessManager(nd)
	case Delegate:
		if !nd.root {
			return "only a root key delegates"
		}
		return ""
	}
	return "its kind is unknown to this program"
}

func (v *view) refuseAdmission(nd *node, a Admit) string {
	subject := IDOf(a.PublicKey)
	if v.genesis.isRoot(subject) {
		return "a root key can't be a machine's"
	}
	if nd.root {
		return ""
	}
	for _, c := range v.cutsOf(subject) {
		if nd.past.has(c) && !v.restored(subject, c, nd.past) {
			return "its key was removed before; only a root restores"
		}
	}
	return v.refuseGrant(nd, a)
}

func (v *view) refuseGrant(nd *node, a Admit) string {
	// Log.attach let it in because its past holds the grant and its proof fits that.
	g := v.index[a.Grant]
	if why := v.refuse(g); why != "" {
		return "its grant does not count: " + why
	}
	if grant := v.nodes[g].rec.Body.(Grant); grant.Sponsor != nd.issuer {
		return fmt.Sprintf("its grant names machine %s as the sponsor", grant.Sponsor)
	}
	if slices.ContainsFunc(v.uses[a.Grant], nd.past.has) {
		return "its grant was used before"
	}
	return ""
}

func (v *view) refuseRemoval(nd *node, r Remove) string {
	if v.genesis.isRoot(r.Machine) {
		return "a root key can't be removed"
	}
	return v.refuseUnlessOwn(nd, r.Machine)
}

func (v *view) refuseVoters(nd *node, b Voters) string {
	if b.Epoch != nd.epoch {
		return fmt.Sprintf("its epoch is %d, but after what its issuer had seen comes %d", b.Epoch, nd.epoch)
	}
	return v.refuseUnlessManager(nd)
}

// refuseUnlessOwn lets a machine speak of itself, and managers of all.
func (v *view) refuseUnlessOwn(nd *node, m crdt.MachineID) string {
	if nd.issuer == m {
		return ""
	}
	return v.refuseUnlessManager(nd)
}

// refuseUnlessManager is the cluster's policy. Only roots delegate, so a delegation
// always counts.
func (v *view) refuseUnlessManager(nd *node) string {
	if nd.root || v.genesis.Policy == PolicyOpen {
		return ""
	}
	for _, d := range v.delegations[nd.issuer] {
		if nd.past.has(d) && v.nodes[d].root {
			return ""
		}
	}
	return fmt.Sprintf("machine %s may not manage the cluster; a root key must delegate to it", nd.issuer)
}
