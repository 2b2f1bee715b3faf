package identity

import (
	"fmt"
	"slices"

	"starling.dev/starling/crdt"
)

// Log is the authorisation log of one cluster: a set of records closed under
// parents, and what follows from it. One goroutine uses it; readers are given a
// [Snapshot].
//
// Two logs that hold the same records agree on everything that a person or a peer
// can see, in whatever order and however often the records came. Only [Log.Since]
// and [Log.Len] speak of this copy's own order, for its disk.
type Log struct {
	genesis Genesis
	id      ClusterID
	nodes   []*node
	index   map[crdt.ID]int
	heads   map[crdt.ID]struct{}
	admits  map[crdt.MachineID][]int // by the admitted key, counted or not
	waiting waiting
	view    *Snapshot // nil when the log grew since it was made
	// verdicts are what Permits has found of machines at places in this log: why not, "" if
	// permitted. Growth makes them void.
	verdicts map[verdictKey]string
}

// node is a record in its place. It never changes.
type node struct {
	rec    Record
	issuer crdt.MachineID
	root   bool // issued by a root key
	past   past // strict: without the record itself
	stamp  uint64
	// epoch is the greatest epoch of voters up to and including the record. Epochs
	// grow by one per record, whatever a record claims, so that nobody can use
	// them up.
	epoch uint64
}

// NewLog returns the empty log of a cluster.
func NewLog(g Genesis) (*Log, error) {
	if err := g.validate(); err != nil {
		return nil, err
	}
	return &Log{
		genesis: g,
		id:      g.ID(),
		index:   map[crdt.ID]int{},
		heads:   map[crdt.ID]struct{}{},
		admits:  map[crdt.MachineID][]int{},

		verdicts: map[verdictKey]string{},
	}, nil
}

// OpenLog returns the log with the given records, parents before children, as another
// machine sent them. A record that can't be attached is an error.
func OpenLog(g Genesis, records [][]byte) (*Log, error) {
	log, err := NewLog(g)
	if err != nil {
		return nil, err
	}
	for i, raw := range records {
		if _, err := log.Add(raw); err != nil {
			return nil, fmt.Errorf("open authorisation log: record %d: %w", i+1, err)
		}
	}
	if n := log.Waiting(); n > 0 {
		return nil, fmt.Errorf("open authorisation log: %d records lack their parents", n)
	}
	return log, nil
}

// LoadLog returns the log with the records that this machine kept, in any order: a disk
// lists them by their keys. They were checked when they came, so signatures are not
// checked again: at ten thousand machines that would take seconds of each start.
func LoadLog(g Genesis, records [][]byte) (*Log, error) {
	log, err := NewLog(g)
	if err != nil {
		return nil, err
	}
	orphans := map[crdt.ID][]Record{} // by a parent that has yet to come
	waiting := 0
	for i, raw := range records {
		rec, err := ParseRecord(raw)
		if err != nil {
			return nil, fmt.Errorf("load authorisation log: record %d: %w", i+1, err)
		}
		waiting++
		for queue := []Record{rec}; len(queue) > 0; queue = queue[1:] {
			if missing, ok := log.missingParent(queue[0]); !ok {
				orphans[missing] = append(orphans[missing], queue[0])
				continue
			}
			waiting--
			log.load(queue[0])
			queue = append(queue, orphans[queue[0].id]...)
			delete(orphans, queue[0].id)
		}
	}
	if waiting > 0 {
		return nil, fmt.Errorf("load authorisation log: %d records lack their parents", waiting)
	}
	return log, nil
}

// load gives a checked record, whose parents are here, its place.
func (l *Log) load(rec Record) {
	if _, known := l.index[rec.id]; !known {
		l.append(l.place(rec))
	}
}

// Genesis returns the cluster's first record.
func (l *Log) Genesis() Genesis { return l.genesis }

// Cluster returns the cluster's ID.
func (l *Log) Cluster() ClusterID { return l.id }

// Len is the number of records attached.
func (l *Log) Len() int { return len(l.nodes) }

// Waiting is the number of records that wait for their parents.
func (l *Log) Waiting() int { return len(l.waiting.records) }

// Since returns the records attached after the first n, parents before children. A
// peer persists Since(what it has persisted) after an Add that reported growth.
func (l *Log) Since(n int) [][]byte {
	var out [][]byte
	for _, nd := range l.nodes[min(n, len(l.nodes)):] {
		out = append(out, nd.rec.raw)
	}
	return out
}

// Add takes in a record from anywhere. It reports whether the log grew: a record
// whose parents are missing waits for them (false, nil), and so is one already here.
// A record that is attached but does not count stays visible without effect. An
// error (ErrMalformed, ErrForged, ErrStranger) means that no replica will ever keep
// the record, and that whoever sent it should not have.
func (l *Log) Add(raw []byte) (grew bool, err error) {
	rec, err := ParseRecord(raw)
	if err != nil {
		return false, err
	}
	if _, known := l.index[rec.id]; known {
		return false, nil
	}
	if err := rec.Verify(l.id); err != nil {
		return false, err
	}
	if missing, ok := l.missingParent(rec); !ok {
		l.waiting.put(rec, missing)
		return false, nil
	}
	if err := l.attach(rec); err != nil {
		return false, err
	}
	l.attachWaiting(rec.id)
	return true, nil
}

func (l *Log) missingParent(rec Record) (crdt.ID, bool) {
	for _, p := range rec.Parents {
		if _, ok := l.index[p]; !ok {
			return p, false
		}
	}
	return crdt.ID{}, true
}

// attachWaiting attaches what waited for a record, and in turn what waited for that.
// Nobody is there to be told of a stranger's record among them: it is dropped.
func (l *Log) attachWaiting(arrived crdt.ID) {
	for queue := []crdt.ID{arrived}; len(queue) > 0; queue = queue[1:] {
		for _, rec := range l.waiting.take(queue[0]) {
			if missing, ok := l.missingParent(rec); !ok {
				l.waiting.put(rec, missing)
			} else if l.attach(rec) == nil {
				queue = append(queue, rec.id)
			}
		}
	}
}

// attach gives a record its place, if it may have one. All its parents are here, and
// whether it may depends on them alone, so that all replicas keep the same records.
func (l *Log) attach(rec Record) error {
	nd := l.place(rec)
	if !nd.root && !l.introduced(nd) {
		return fmt.Errorf("%w: %s record %s by machine %s", ErrStranger, rec.Kind, rec.id, nd.issuer)
	}
	if a, ok := admission(rec.Body); ok && !nd.root && !l.proven(a, nd.past) {
		return fmt.Errorf("%w: the proof in %s record %s fits no grant that its issuer had seen", ErrForged, rec.Kind, rec.id)
	}
	l.append(nd)
	return nil
}

func (l *Log) append(nd *node) {
	i := len(l.nodes)
	l.nodes = append(l.nodes, nd)
	l.index[nd.rec.id] = i
	for _, p := range nd.rec.Parents {
		delete(l.heads, p)
	}
	l.heads[nd.rec.id] = struct{}{}
	if a, ok := admission(nd.rec.Body); ok {
		subject := IDOf(a.PublicKey)
		l.admits[subject] = append(l.admits[subject], i)
	}
	l.view = nil
	clear(l.verdicts)
}

func (l *Log) place(rec Record) *node {
	nd := &node{rec: rec, issuer: rec.IssuerID(), stamp: rec.Stamp}
	nd.root = l.genesis.isRoot(nd.issuer)
	var pasts []past
	var points []int
	for _, p := range rec.Parents {
		i := l.index[p]
		pasts = append(pasts, l.nodes[i].past)
		points = append(points, i)
		nd.stamp = max(nd.stamp, l.nodes[i].stamp+1)
		nd.epoch = max(nd.epoch, l.nodes[i].epoch)
	}
	if _, ok := rec.Body.(Voters); ok {
		nd.epoch++
	}
	nd.past = union(pasts, points)
	return nd
}

// introduced reports whether some record in a record's past admits its issuer,
// rightly or not. It keeps those who were never here from filling the log.
func (l *Log) introduced(nd *node) bool {
	return slices.ContainsFunc(l.admits[nd.issuer], nd.past.has)
}

// proven checks the newcomer's proof against the grant that the admission names.
func (l *Log) proven(a Admit, before past) bool {
	i, ok := l.index[a.Grant]
	if !ok || !before.has(i) {
		return false
	}
	grant, ok := l.nodes[i].rec.Body.(Grant)
	return ok && verifyProof(l.id, grant.TokenKey, a)
}

// Has reports whether the record is attached.
func (l *Log) Has(id crdt.ID) bool {
	_, ok := l.index[id]
	return ok
}
