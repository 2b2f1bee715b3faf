package identity

import (
	"cmp"
	"crypto/ed25519"
	"slices"

	"starling.dev/starling/crdt"
)

// Machine is a member of the cluster, present or removed, as the log describes it.
type Machine struct {
	ID        crdt.MachineID
	PublicKey ed25519.PublicKey
	// Name is unique among the machines that are not removed. It is Claimed, unless
	// another machine holds that name: then a part of the ID is appended.
	Name    string
	Claimed string
	// Rival is the machine that holds the claimed name; zero if none does.
	Rival crdt.MachineID
	// Admitted is the stamp of the admission, Admission its record, and Sponsor the
	// machine or root that admitted.
	Admitted  uint64
	Admission crdt.ID
	Sponsor   crdt.MachineID
	Voter     bool
	// Removed: the machine's key is no longer trusted. Removal is the record, Reason what it
	// says, and Remover the machine or root that states it: the machine itself if it left.
	Removed bool
	Removal crdt.ID
	Reason  string
	Remover crdt.MachineID
}

// Judged is a record with its verdict.
type Judged struct {
	Record Record
	// Stamp is max(the record's, 1 + the greatest of its parents).
	Stamp uint64
	// Refused says why the record has no effect; empty if it counts.
	Refused string
}

// Snapshot is what follows from a log at one time. It never changes, and any number of
// goroutines may read it. It implements [Trust].
type Snapshot struct {
	cluster  ClusterID
	genesis  Genesis
	heads    []crdt.ID
	judge    *view // fully computed: reading it writes nothing
	machines []Machine
	byID     map[crdt.MachineID]int
	byName   map[string]int
	voters   Voters
}

// Snapshot returns the log's present meaning. It is computed at the first call after
// the log grew.
func (l *Log) Snapshot() *Snapshot {
	if l.view == nil {
		l.view = newSnapshot(l)
	}
	return l.view
}

func newSnapshot(l *Log) *Snapshot {
	nodes := slices.Clip(l.nodes)
	s := &Snapshot{
		cluster: l.id,
		genesis: l.genesis,
		heads:   l.Heads(),
		judge:   newJudge(l.genesis, nodes).view(union([]past{{{0, len(nodes)}}}, nil)),
		byID:    map[crdt.MachineID]int{},
		byName:  map[string]int{},
	}
	for i := range nodes {
		s.judge.refuse(i)
	}
	for _, cuts := range s.judge.cuts {
		for _, c := range cuts {
			s.judge.refuseCut(c)
		}
	}
	s.voters = s.findVoters()
	s.findMachines()
	return s
}

// counting returns those of the positions that count, in order.
func (v *view) counting(positions []int) []int {
	var out []int
	for _, i := range positions {
		if v.refuse(i) == "" {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, v.before)
	return out
}

func (s *Snapshot) findVoters() Voters {
	best := -1
	for i, nd := range s.judge.nodes {
		b, ok := nd.rec.Body.(Voters)
		if !ok || s.judge.refuse(i) != "" {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(s.judge.nodes[best].epoch, b.Epoch), s.judge.before(best, i)) < 0 {
			best = i
		}
	}
	if best < 0 {
		return Voters{}
	}
	return s.judge.nodes[best].rec.Body.(Voters)
}

func (s *Snapshot) findMachines() {
	var claims []claim
	for id := range s.judge.admits {
		if c, ok := s.claim(id); ok {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b claim) int { return s.judge.before(a.record, b.record) })
	s.settleNames(claims)
	for _, c := range claims {
		s.machines = append(s.machines, c.machine)
	}
	slices.SortFunc(s.machines, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareMachines(a.ID, b.ID))
	})
	for i, m := range s.machines {
		s.byID[m.ID] = i
		if !m.Removed {
			s.byName[m.Name] = i
		}
	}
}

// claim is a machine and the record by which it claims its name.
type claim struct {
	machine Machine
	record  int
}

func (s *Snapshot) claim(id crdt.MachineID) (claim, bool) {
	admissions := s.judge.counting(s.judge.admits[id])
	if len(admissions) == 0 {
		return claim{}, false
	}
	first := s.judge.nodes[admissions[0]]
	latest := admissions[len(admissions)-1]
	a, _ := admission(first.rec.Body)
	m := Machine{
		ID:        id,
		PublicKey: a.PublicKey,
		Admitted:  first.stamp,
		Admission: first.rec.id,
		Sponsor:   first.issuer,
		Voter:     slices.Contains(s.voters.Machines, id),
	}
	named, _ := admission(s.judge.nodes[latest].rec.Body)
	m.Claimed = named.Name
	if renames := s.judge.counting(s.judge.renames[id]); len(renames) > 0 {
		if last := renames[len(renames)-1]; s.judge.before(latest, last) < 0 {
			latest = last
			m.Claimed = s.judge.nodes[last].rec.Body.(Rename).Name
		}
	}
	if c, ok := s.openCut(id); ok {
		r, _ := removal(s.judge.nodes[c].rec.Body)
		m.Removed, m.Removal, m.Reason, m.Remover = true, s.judge.nodes[c].rec.id, r.Reason, s.judge.nodes[c].issuer
	}
	return claim{m, latest}, true
}

// openCut finds the first valid cut of a machine that no root lifted.
func (s *Snapshot) openCut(m crdt.MachineID) (int, bool) {
	cuts := s.judge.cutsOf(m)
	cuts = slices.DeleteFunc(cuts, func(c int) bool { return s.judge.restored(m, c, s.judge.limit) })
	if len(cuts) == 0 {
		return 0, false
	}
	return cuts[0], true
}

// settleNames gives each name to the first claim; claims are in order. A removed
// machine holds no name.
func (s *Snapshot) settleNames(claims []claim) {
	holders := map[string]crdt.MachineID{}
	for i := range claims {
		m := &claims[i].machine
		m.Name = m.Claimed
		if holder, taken := holders[m.Claimed]; m.Removed {
			continue
		} else if taken {
			m.Rival = holder
		} else {
			holders[m.Claimed] = m.ID
		}
	}
	for i := range claims {
		if m := &claims[i].machine; !m.Rival.IsZero() {
			m.Name = freeName(holders, m)
			holders[m.Name] = m.ID
		}
	}
}

// freeName is the claimed name with as much of the ID as makes it unique.
func freeName(holders map[string]crdt.MachineID, m *Machine) string {
	id := m.ID.String()
	for n := 8; ; n++ {
		name := m.Claimed[:min(len(m.Claimed), maxName-1-n)] + "-" + id[:n]
		if _, taken := holders[name]; !taken || n == len(id) {
			return name
		}
	}
}

// Cluster returns the cluster's ID.
func (s *Snapshot) Cluster() ClusterID { return s.cluster }

// Genesis returns the cluster's first record.
func (s *Snapshot) Genesis() Genesis { return s.genesis }

// Heads returns the heads of the log that the snapshot was made of, ascending. The
// caller must not change it.
func (s *Snapshot) Heads() []crdt.ID { return s.heads }

// Machines returns every machine that was ever admitted, removed ones too, sorted by
// name and ID. The caller must not change it.
func (s *Snapshot) Machines() []Machine { return s.machines }

// Members returns the machines that are not removed, the first admitted first.
func (s *Snapshot) Members() []Machine {
	var out []Machine
	for _, m := range s.machines {
		if !m.Removed {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Admitted, b.Admitted), compareMachines(a.ID, b.ID))
	})
	return out
}

// ByID finds a machine, removed or not.
func (s *Snapshot) ByID(id crdt.MachineID) (Machine, bool) {
	i, ok := s.byID[id]
	if !ok {
		return Machine{}, false
	}
	return s.machines[i], true
}

// ByKey finds a machine, removed or not, by its public key.
func (s *Snapshot) ByKey(pub ed25519.PublicKey) (Machine, bool) { return s.ByID(IDOf(pub)) }

// ByName finds the machine that holds a name. Removed machines hold none.
func (s *Snapshot) ByName(name string) (Machine, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Machine{}, false
	}
	return s.machines[i], true
}

// Admitted finds a machine by its key if it is a member now.
func (s *Snapshot) Admitted(pub ed25519.PublicKey) (Machine, bool) {
	m, ok := s.ByKey(pub)
	return m, ok && !m.Removed
}

// Voters returns the voters as last written; epoch 0 if they never were. A removed
// machine stays in until the next epoch: it counts in the majority's size, and gives
// no vote.
func (s *Snapshot) Voters() Voters { return s.voters }

// Records returns every record with its verdict, ordered by (stamp, ID).
func (s *Snapshot) Records() []Judged {
	order := make([]int, len(s.judge.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, s.judge.before)
	out := make([]Judged, len(order))
	for at, i := range order {
		nd := s.judge.nodes[i]
		out[at] = Judged{Record: nd.rec, Stamp: nd.stamp, Refused: s.judge.refuse(i)}
	}
	return out
}
