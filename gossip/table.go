package gossip

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"time"

	"starling.dev/starling/crdt"
)

// MaxKnown bounds the members and the rows of the peer table. A row gives way to a
// new one only if its machine isn't alive; members beyond the limit are not shown.
const MaxKnown = 16384

// table is what is known about the other machines: the members that gossip reported
// since the start, and the rows of the peer table from before.
type table struct {
	self crdt.MachineID
	now  func() time.Time

	mu      sync.RWMutex
	members map[crdt.MachineID]Member
	known   map[crdt.MachineID]Known
	// heard are machines that gossip mentioned but has not reported yet.
	heard map[crdt.MachineID]Known
	// standIns finds the machine behind a stand-in address. It holds the keys of
	// members, known and heard.
	standIns map[netip.Addr]crdt.MachineID
	// changed are the members to report, knownChanged whether to save the rows.
	changed      map[crdt.MachineID]struct{}
	knownChanged bool
	// wake has room for one: a second signal before the first is taken says nothing new.
	wake chan struct{}
}

func newTable(self crdt.MachineID, known []Known, now func() time.Time) *table {
	t := &table{
		self:     self,
		now:      now,
		members:  map[crdt.MachineID]Member{},
		known:    map[crdt.MachineID]Known{},
		heard:    map[crdt.MachineID]Known{},
		standIns: map[netip.Addr]crdt.MachineID{},
		changed:  map[crdt.MachineID]struct{}{},
		wake:     make(chan struct{}, 1),
	}
	for _, k := range known {
		if k.ID != self && !k.ID.IsZero() && k.Addr.IsValid() && len(t.known) < MaxKnown {
			t.known[k.ID] = k
			t.standIns[standIn(k.ID)] = k.ID
		}
	}
	return t
}

// report takes what gossip says of a member. Since starts anew with every change of
// status.
func (t *table) report(m Member, status Status) {
	if m.ID == t.self {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.members[m.ID]
	if !ok && len(t.members) >= MaxKnown {
		return
	}
	m.Status, m.Since = status, t.now()
	if ok && old.Status == status {
		m.Since = old.Since
	}
	if ok && old == m {
		return
	}
	t.members[m.ID] = m
	delete(t.heard, m.ID)
	t.standIns[standIn(m.ID)] = m.ID
	t.rememberLocked(m)
	t.changed[m.ID] = struct{}{}
	t.signal()
}

func (t *table) rememberLocked(m Member) {
	row := Known{ID: m.ID, Name: m.Name, Addr: m.Addr, StreamPort: m.StreamPort}
	old, ok := t.known[m.ID]
	switch {
	case m.Status == Left && ok:
		delete(t.known, m.ID)
	case m.Status == Left || ok && old == row:
		return
	default:
		if !ok && len(t.known) >= MaxKnown && !t.evictLocked() {
			return
		}
		t.known[m.ID] = row
	}
	t.knownChanged = true
}

// evictLocked makes room by dropping a row whose machine isn't alive.
func (t *table) evictLocked() bool {
	for id := range t.known {
		if t.members[id].Status != Alive {
			delete(t.known, id)
			return true
		}
	}
	return false
}

// learn takes the address of a machine that gossip mentions for the first time, before
// the event that reports it: messages to it may be due at once.
func (t *table) learn(m Member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.ID == t.self {
		return
	}
	_, member := t.members[m.ID]
	_, known := t.known[m.ID]
	if member || known || len(t.heard) >= MaxKnown {
		return
	}
	t.heard[m.ID] = Known{ID: m.ID, Name: m.Name, Addr: m.Addr, StreamPort: m.StreamPort}
	t.standIns[standIn(m.ID)] = m.ID
}

// forget drops a machine: it was removed from the cluster, or left long ago.
func (t *table) forget(id crdt.MachineID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, ok := t.members[id]; ok && m.Status != Left {
		m.Status, m.Since = Left, t.now()
		t.members[id] = m
		t.changed[id] = struct{}{}
	}
	if _, ok := t.known[id]; ok {
		delete(t.known, id)
		t.knownChanged = true
	}
	t.signal()
}

func (t *table) signal() { signal(t.wake) }

// take returns the members that changed since it was last called, sorted by ID, and
// the rows of the peer table if they changed, else nil.
func (t *table) take() ([]Member, []Known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var members []Member
	for id := range t.changed {
		members = append(members, t.members[id])
	}
	clear(t.changed)
	slices.SortFunc(members, func(a, b Member) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	if !t.knownChanged {
		return members, nil
	}
	t.knownChanged = false
	return members, t.rowsLocked()
}

func (t *table) rowsLocked() []Known {
	rows := make([]Known, 0, len(t.known))
	for _, k := range t.known {
		rows = append(rows, k)
	}
	slices.SortFunc(rows, func(a, b Known) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return rows
}

func (t *table) rows() []Known {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rowsLocked()
}

// list returns every member but this machine, sorted by ID.
func (t *table) list() []Member {
	t.mu.RLock()
	defer t.mu.RUnlock()
	members := make([]Member, 0, len(t.members))
	for _, m := range t.members {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return members
}

func (t *table) member(id crdt.MachineID) (Member, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	m, ok := t.members[id]
	return m, ok
}

// where returns the last known address of a machine.
func (t *table) where(id crdt.MachineID) (Known, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if m, ok := t.members[id]; ok {
		return Known{ID: id, Name: m.Name, Addr: m.Addr, StreamPort: m.StreamPort}, true
	}
	if k, ok := t.known[id]; ok {
		return k, true
	}
	k, ok := t.heard[id]
	return k, ok
}

// behind returns the machine that a stand-in address stands for.
func (t *table) behind(a netip.Addr) (crdt.MachineID, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.standIns[a]
	return id, ok
}

// livesAt returns the machine last known at an address; zero if none is.
func (t *table) livesAt(a netip.AddrPort) crdt.MachineID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, m := range t.members {
		if m.Addr == a {
			return id
		}
	}
	for id, k := range t.known {
		if k.Addr == a {
			return id
		}
	}
	return crdt.MachineID{}
}

// missing returns the rows of machines that are neither alive nor gone for good, and
// how many are alive.
func (t *table) missing() (rows []Known, alive int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, m := range t.members {
		if m.Status == Alive {
			alive++
		}
	}
	for _, k := range t.rowsLocked() {
		if t.members[k.ID].Status != Alive {
			rows = append(rows, k)
		}
	}
	return rows, alive
}

// reap drops a member whose goodbye is long ago.
func (t *table) reap(id crdt.MachineID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, id)
	delete(t.changed, id)
	if _, ok := t.known[id]; !ok {
		delete(t.standIns, standIn(id))
	}
}
