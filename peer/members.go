package peer

import (
	"bytes"
	"slices"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// askEvery is how often the voters are asked about a silent machine that holds
// something back, and voteTTL how long an answer counts as "now".
const (
	askEvery = 2 * time.Second
	voteTTL  = 6 * time.Second
)

// member is what this peer sees of a machine: a view, never a replicated fact.
type member struct {
	alive     bool
	connected bool
	since     time.Time // when alive last changed
	heard     time.Time // when its last message came
	lastAsk   time.Time
	// votes holds each voter's last answer about this machine.
	votes map[crdt.MachineID]vote
}

type vote struct {
	silent bool
	epoch  uint64
	at     time.Time
}

// members is the liveness of every machine, seen from here.
type members struct {
	self crdt.MachineID
	all  map[crdt.MachineID]*member
	// linked are the others that data can be sent to, sorted; it is replaced, never changed.
	linked []crdt.MachineID
}

func newMembers(self crdt.MachineID) *members {
	return &members{self: self, all: map[crdt.MachineID]*member{}}
}

// get returns the record of a machine. A machine never heard of is silent since
// the first time that somebody asked for it.
func (m *members) get(id crdt.MachineID, now time.Time) *member {
	if m.all[id] == nil {
		m.all[id] = &member{since: now, votes: map[crdt.MachineID]vote{}}
	}
	return m.all[id]
}

// setAlive records a change and reports whether it is one.
func (m *members) setAlive(id crdt.MachineID, alive bool, now time.Time) bool {
	r := m.get(id, now)
	if r.alive == alive {
		return false
	}
	r.alive, r.since = alive, now
	clear(r.votes)
	return true
}

func (m *members) alive(id crdt.MachineID) bool {
	if id == m.self {
		return true
	}
	r := m.all[id]
	return r != nil && r.alive
}

// connect notes whether data can be sent to a machine.
func (m *members) connect(id crdt.MachineID, up bool, now time.Time) {
	r := m.get(id, now)
	if r.connected == up {
		return
	}
	r.connected = up
	if at, _ := slices.BinarySearchFunc(m.linked, id, compareMachines); up && id != m.self {
		m.linked = slices.Insert(slices.Clone(m.linked), at, id)
	} else if id != m.self {
		m.linked = slices.Delete(slices.Clone(m.linked), at, at+1)
	}
}

// connected returns the members that data can be sent to, sorted. The list must not be
// changed, and may be kept.
func (m *members) connected() []crdt.MachineID { return m.linked }

func compareMachines(a, b crdt.MachineID) int { return bytes.Compare(a[:], b[:]) }

// silent reports whether a majority of all voters of the epoch said within voteTTL that
// they find the machine silent; yes and of are the numbers behind that.
func (m *members) silent(id crdt.MachineID, epoch uint64, voters []crdt.MachineID, now time.Time) (silent bool, yes, of int) {
	r := m.get(id, now)
	for _, v := range voters {
		if a, ok := r.votes[v]; ok && a.silent && a.epoch == epoch && now.Sub(a.at) <= voteTTL {
			yes++
		}
	}
	return yes > len(voters)/2, yes, len(voters)
}

// receiveMembership takes a hint of gossip.
func (c *Core) receiveMembership(e Membership) {
	if e.Machine == c.self.ID || !c.members.setAlive(e.Machine, e.Alive, c.now) {
		return
	}
	c.engine.memberChanged(c.nameOf(e.Machine))
	c.voting.touch()
}

func (c *Core) receiveConnection(e Connection) {
	c.members.connect(e.Machine, e.Up, c.now)
	if !e.Up {
		c.replica.gone(e.Machine)
		return
	}
	c.replica.joined(e.Machine)
	c.voting.tell(e.Machine)
}

// memberView tells the engine how a machine is seen.
func (c *Core) memberView(name string) lifecycle.Member {
	if name == c.self.Name {
		return lifecycle.Member{Alive: true}
	}
	id, ok := c.idOf(name)
	if !ok {
		return lifecycle.Member{Since: c.now, Removed: true}
	}
	r := c.members.get(id, c.now)
	if r.alive {
		return lifecycle.Member{Alive: true, Since: r.since}
	}
	silent, _, _ := c.silent(id)
	return lifecycle.Member{Since: r.since, Silent: silent}
}

// silent reports what the voters, as known here, said of a machine.
func (c *Core) silent(id crdt.MachineID) (silent bool, yes, of int) {
	return c.members.silent(id, c.voting.epoch(), c.voting.machines(), c.now)
}

// askVoters asks every voter about a machine that something waits for. It is asked
// again as long as that lasts.
func (c *Core) askVoters(name string) {
	id, ok := c.idOf(name)
	if !ok || c.members.alive(id) {
		return
	}
	r := c.members.get(id, c.now)
	if !r.lastAsk.IsZero() && c.now.Sub(r.lastAsk) < askEvery {
		return
	}
	r.lastAsk = c.now
	epoch := c.voting.epoch()
	for _, v := range c.voting.machines() {
		if v != c.self.ID {
			c.send(v, Ask{Nonce: c.rand(), Machine: id, Epoch: epoch})
		} else if c.voting.votes(epoch) {
			c.noteVote(id, v, vote{silent: true, epoch: epoch, at: c.now})
		}
	}
}

// noteVote takes a voter's answer. Objects are looked at again if it decides something.
func (c *Core) noteVote(id, voter crdt.MachineID, v vote) {
	before, _, _ := c.silent(id)
	c.members.get(id, c.now).votes[voter] = v
	if after, _, _ := c.silent(id); after != before {
		c.engine.silenceChanged(c.nameOf(id))
	}
}

// receiveAsk answers as a voter. Only what is seen at this moment counts, and only among
// the voters of one epoch: whoever asks for another is told who the voters are.
func (c *Core) receiveAsk(from crdt.MachineID, m Ask) {
	if !c.voting.votes(m.Epoch) {
		c.voting.tell(from)
		return
	}
	c.send(from, Vote{Nonce: m.Nonce, Machine: m.Machine, Silent: !c.members.alive(m.Machine), Epoch: m.Epoch})
}

func (c *Core) receiveVote(from crdt.MachineID, m Vote) {
	if m.Epoch != c.voting.epoch() || !c.voting.lists(from) {
		return
	}
	c.noteVote(m.Machine, from, vote{silent: m.Silent, epoch: m.Epoch, at: c.now})
}
