package sim

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// machine is a computer: a disk, a clock, a host with containers, and a peer that may
// run or not.
type machine struct {
	w     *World
	index int
	name  string // as admitted
	id    crdt.MachineID
	key   ed25519.PrivateKey
	disk  *Disk
	host  *host
	begin func() // turn, as it is scheduled
	// unsound: the disk is an older copy, which the next start finds out.
	unsound bool
	// gone: it was removed from the cluster and is switched off.
	gone bool
	// removed: a person said so, and was told that it is on a disk.
	removed bool
	// powered is false while the whole machine is off, not only its peer.
	powered bool
	// paused: until then the peer stands still.
	paused time.Duration
	// level is the highest level that its program folds.
	level uint32
	// skew is how far its clock is ahead of virtual time.
	skew time.Duration

	// What follows lasts for one life of the peer.

	// life counts starts and ends: what an earlier life scheduled is void.
	life     int
	core     *peer.Core // nil while the peer does not run
	verifier *peer.Verifier
	inbox    []peer.Event
	turning  bool // a turn is scheduled or waits for its sync
	// ready is what the turn under way leads to, until its effects have left.
	ready   peer.Ready
	wake    int // counts wake-ups: only the last one scheduled is heard
	actions map[uint64]*action
	// spins counts turns in a row after which the core wanted another one at once.
	spins int
}

func (w *World) addMachine(i int, records [][]byte) *machine {
	key := newKey(w.cfg.Seed, machineName(i))
	m := &machine{w: w, index: i, name: machineName(i), id: identity.IDOf(publicOf(key)), key: key, disk: NewDisk(), powered: true, level: max(w.level, peer.Level)}
	m.begin = m.turn
	m.host = newHost(m)
	if w.weather.skew > 0 {
		m.skew = w.random.chaos.between(-w.weather.skew, w.weather.skew)
	}
	w.machines = append(w.machines, m)
	w.byID[m.id] = m
	w.net.grow()
	if err := m.install(records); err != nil {
		w.fail(10, "%s can't be installed: %v", m.name, err)
	}
	return m
}

// install puts the authorisation log onto an empty disk, as a join does.
func (m *machine) install(records [][]byte) error {
	var c crdt.Commit
	for i, r := range records {
		c.Local = append(c.Local, crdt.LocalWrite{Key: peer.AuthKey(i), Value: r})
	}
	return m.disk.Commit(c)
}

// clock is what the machine's clock shows.
func (m *machine) clock() time.Time { return m.w.clockAt(m.w.now + m.skew) }

// start starts the peer from its disk.
func (m *machine) start() {
	if m.core != nil || m.gone {
		return
	}
	m.powered = true
	m.life++
	m.inbox, m.turning, m.actions, m.spins = nil, false, map[uint64]*action{}, 0
	if err := m.open(); err != nil {
		m.w.fail(2, "%s does not start from its disk: %v", m.name, err)
		return
	}
	m.w.check.started(m)
	m.w.net.changed()
	m.w.net.introduce(m)
	m.schedule()
	if !m.w.hooks.unswept {
		m.later(m.w.random.damage.between(time.Millisecond, 300*time.Millisecond), m.sweep)
	}
}

// sweep looks the machine over, as the daemon does at its start: what no record tells of
// is removed, and the core learns what the rest was given.
func (m *machine) sweep() {
	h, runs := m.host, map[string]lifecycle.Reservation{}
	for _, id := range sortedIDs(h.pods) {
		if m.core.Holds(id, "container") {
			cpu, memory := h.pods[id].given()
			runs[id] = lifecycle.Reservation{CPU: cpu, Memory: memory}
			continue
		}
		m.w.say("%s: nothing tells of %s, which runs; it is stopped", m.name, h.pods[id].name)
		m.w.sometimes("containers that a restored disk forgot are stopped")
		delete(h.pods, id)
	}
	for _, id := range sortedIDs(h.nets) {
		if !m.core.Holds(id, "network") {
			delete(h.nets, id)
		}
	}
	m.post(peer.Swept{Runs: runs})
}

func (m *machine) open() error {
	log, err := m.readLog()
	if err != nil {
		return err
	}
	self, ok := log.Snapshot().ByID(m.id)
	if !ok {
		return errNotMember
	}
	m.verifier = peer.NewVerifier(m.w.verify())
	m.verifier.Update(log.Snapshot())
	cfg := peer.Config{
		Self: peer.Machine{ID: m.id, Name: self.Name}, PublicKey: publicOf(m.key), Sign: m.signer(), Key: m.key,
		Trust: log, Kinds: m.w.kinds, Seed: m.w.random.boot.Uint64(), HashAt: m.disk.Hash, Level: m.level,
		Stored: m.disk.Stored, Retention: m.w.weather.retention,
	}
	sound := !m.unsound
	rec := peer.Recovery{Local: m.disk.Local(), AuthRecords: log.Len(), Batches: m.disk.Batches, Checkpoint: m.disk.Checkpoint, Since: m.disk.Since, Sound: func() bool { return sound }, Unswept: !m.w.hooks.unswept}
	if m.w.hooks.config != nil {
		m.w.hooks.config(m, &cfg, &rec)
	}
	if m.core, err = peer.New(cfg, rec, m.clock()); err != nil {
		return err
	}
	m.core.Teach(m.verifier)
	switch {
	case m.core.Resumed():
		m.w.sometimes("a peer starts from a checkpoint")
	case m.disk.checkpoint != nil:
		m.w.sometimes("a checkpoint is refused at the start")
	}
	return nil
}

// save puts a checkpoint on the disk. Some are damaged there.
func (m *machine) save() {
	file := &m.w.file
	file.Reset()
	c := m.core.Checkpoint()
	if err := c.Write(file); err != nil {
		m.w.fail(2, "%s can't write a checkpoint: %v", m.name, err)
	}
	written := bytes.Clone(file.Bytes())
	m.disk.checkpoint = written
	if err := m.core.Settle(c, openFile(written)); err != nil {
		m.w.fail(2, "%s can't go on with a checkpoint: %v", m.name, err)
	}
	if r := m.w.random.rest; r.chance(0.1) {
		m.disk.checkpoint = m.disk.checkpoint[:r.IntN(file.Len())]
	} else if r.chance(0.1) {
		m.disk.checkpoint = bytes.Clone(written) // what is open stays as it was
		m.disk.checkpoint[r.IntN(file.Len())] ^= 1
	}
}

func (m *machine) readLog() (*identity.Log, error) {
	var records [][]byte
	local := m.disk.Local()
	for _, key := range slices.Sorted(maps.Keys(local)) {
		if strings.HasPrefix(key, peer.AuthPrefix) {
			records = append(records, local[key])
		}
	}
	return identity.LoadLog(m.w.genesis, records)
}

func (m *machine) signer() crdt.Signer {
	if m.w.weather.realKeys {
		return crdt.Ed25519Signer(m.key)
	}
	return cheapSigner(publicOf(m.key))
}

func (w *World) verify() crdt.Verifier {
	switch {
	case w.hooks.verify != nil:
		return w.hooks.verify
	case w.weather.realKeys:
		return crdt.VerifyEd25519
	}
	return cheapVerifier
}

// kill ends the peer's program; its containers go on. What was handed to the kernel
// usually reaches the disk all the same.
func (m *machine) kill() {
	if m.core == nil {
		return
	}
	m.end(m.w.random.disk.chance(0.5))
}

// cutPower ends everything on the machine.
func (m *machine) cutPower() {
	m.end(m.w.random.disk.chance(0.2))
	m.host.powerOff()
	m.powered = false
}

func (m *machine) end(survives bool) {
	for _, id := range slices.Sorted(maps.Keys(m.actions)) {
		m.actions[id].cutOff()
	}
	if m.disk.pending != nil {
		m.w.sometimes(fmt.Sprintf("crash during a sync, written=%v", survives))
	}
	pending := m.disk.pending
	survives = survives && pending != nil && !m.disk.full
	if err := m.disk.Crash(survives); err != nil {
		m.w.fail(2, "%s: the disk does not come back: %v", m.name, err)
	}
	if survives {
		m.w.check.survived(m, *pending)
	}
	m.life++
	m.core, m.actions, m.inbox, m.paused = nil, nil, nil, 0
	m.w.people.hungUp(m)
	m.w.net.changed()
}

// later schedules something in this life of the peer.
func (m *machine) later(d time.Duration, do func()) {
	m.w.queue.add(event{at: m.w.now + d, do: do, of: m, life: m.life})
}
