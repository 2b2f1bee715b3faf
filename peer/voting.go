package peer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/quorum"
)

// Keys of the private key space.
const (
	keyRoll        = "voter/roll"  // the latest roll that this peer knows
	keyToken       = "voter/token" // of this machine's seat
	keyReady       = "voter/ready" // the epoch in which it votes
	registerPrefix = "register/"   // what it promised and accepted, by register
)

// maxRegisters bounds the registers that a voter keeps: all of them fit into one Copy.
const maxRegisters = 16_384

// voting is this machine's part in the only quorum there is: the roll as it knows it;
// what it promised and accepted, if it is a voter; and its attempts to change registers.
//
// Invariant: a voter answers for the epoch of its roll only, and only once it holds
// everything that was chosen in the epochs before. It leaves an epoch for good when it
// learns the next roll.
type voting struct {
	c     *Core
	roll  Roll
	token uint64
	// ready is the epoch whose requests this machine answers, or the last one that it
	// did: its registers are complete up to there. 0: it never was a voter.
	ready     uint64
	registers map[string]*quorum.Acceptor
	// copied are the voters of the epoch before whose registers are merged.
	copied   map[crdt.MachineID]bool
	nextCopy time.Time

	life     uint64 // of this program, for ballots
	counter  uint64
	attempts map[string]*attempt

	// What follows is about changes of the roll.

	tokens    map[crdt.MachineID]uint64 // what candidates told
	stale     bool                      // something happened that may make a change due
	nextLook  time.Time
	nextOffer time.Time
}

func newVoting(c *Core) *voting {
	return &voting{
		c: c, registers: map[string]*quorum.Acceptor{}, copied: map[crdt.MachineID]bool{},
		attempts: map[string]*attempt{}, tokens: map[crdt.MachineID]uint64{}, stale: true, life: c.rand(),
	}
}

// load reads what the disk holds. A disk that failed its start check may have forgotten
// promises: then this machine gives up its seat, and may be given a new one.
func (v *voting) load(local map[string][]byte, sound bool) error {
	if raw, ok := local[keyRoll]; ok {
		roll, err := decodeRoll(raw)
		if err != nil {
			return fmt.Errorf("read the roll of voters: %w", err)
		}
		v.roll = roll
	}
	if !sound {
		v.resign(local)
		return nil
	}
	v.token, v.ready = readNumber(local[keyToken]), readNumber(local[keyReady])
	for _, key := range sortedKeys(local) {
		name, ok := strings.CutPrefix(key, registerPrefix)
		if !ok {
			continue
		}
		r := &reader{b: local[key]}
		a := r.acceptor()
		if r.err != nil {
			return fmt.Errorf("read register %q: %w", name, r.err)
		}
		v.registers[name] = &a
	}
	v.found()
	return nil
}

func readNumber(raw []byte) uint64 {
	if len(raw) != 8 {
		return 0
	}
	return getUint64(raw)
}

// resign forgets the seat and all that came with it. The new token stays on the disk, which
// may be as old as the cluster: the next start must not take it for one that has just begun.
func (v *voting) resign(local map[string][]byte) {
	for _, key := range sortedKeys(local) {
		if key == keyReady || strings.HasPrefix(key, registerPrefix) {
			v.c.put(key, nil)
		}
	}
	v.token = 0
	v.ownToken()
}

// found makes the machine that began the cluster its first voter. It has just begun it
// if no later voters were ever written.
func (v *voting) found() {
	first := v.c.trust.now.Voters()
	if v.roll.Epoch > 0 || v.token != 0 || first.Epoch != 1 || len(first.Machines) != 1 || first.Machines[0] != v.c.self.ID {
		return
	}
	v.roll = Roll{Epoch: 1, Seats: []Seat{{v.c.self.ID, v.ownToken()}}}
	v.c.put(keyRoll, appendRoll(nil, v.roll))
	v.becomeReady()
}

// ownToken draws the token of this machine's seat, once.
func (v *voting) ownToken() uint64 {
	if v.token == 0 {
		v.token = v.c.rand() | 1 // never 0
		v.c.put(keyToken, putUint64(v.token))
	}
	return v.token
}

func (v *voting) becomeReady() {
	v.ready = v.roll.Epoch
	v.c.put(keyReady, putUint64(v.ready))
	v.touch()
}

// epoch and machines are the voters as far as this peer knows: by the roll that it was
// told, or as they are published, whichever is later.
func (v *voting) epoch() uint64 { return max(v.roll.Epoch, v.c.trust.now.Voters().Epoch) }

func (v *voting) machines() []crdt.MachineID {
	if published := v.c.trust.now.Voters(); published.Epoch > v.roll.Epoch {
		return published.Machines
	}
	return machinesOf(v.roll.Seats)
}

// votes reports whether this machine has a vote in the epoch.
func (v *voting) votes(epoch uint64) bool {
	return epoch == v.roll.Epoch && v.ready == epoch && v.seated()
}

// seated reports whether this machine, with this disk, sits on a seat.
func (v *voting) seated() bool {
	s, ok := seatOf(v.roll.Seats, v.c.self.ID)
	return ok && v.token != 0 && s.Token == v.token
}

// need is how many of the seats decide: a majority. Two voters of which one was removed
// from the cluster, by somebody who may do that, are the exception: no majority will ever
// be there again, and whoever removed it has said which half goes on.
func (v *voting) need(seats []Seat) int {
	if len(seats) == 2 {
		for _, s := range seats {
			if m, ok := v.c.trust.now.ByID(s.Machine); ok && m.Removed {
				return 1
			}
		}
	}
	return quorum.Majority(len(seats))
}

// learn takes over a later roll, which some voters chose, and passes it on.
func (v *voting) learn(roll Roll) {
	if roll.Epoch <= v.roll.Epoch {
		return
	}
	v.roll = roll
	v.c.put(keyRoll, appendRoll(nil, roll))
	clear(v.copied)
	v.nextCopy = time.Time{}
	for _, key := range sortedKeys(v.attempts) {
		v.end(v.attempts[key])
	}
	for _, to := range v.c.members.connected() {
		v.c.send(to, RollCall{roll})
	}
	v.touch()
	v.enter()
}

// tell lets another machine know the roll.
func (v *voting) tell(to crdt.MachineID) { v.c.send(to, RollCall{v.roll}) }

func (v *voting) receiveRollCall(from crdt.MachineID, m RollCall) {
	if m.Roll.Epoch < v.roll.Epoch {
		v.tell(from)
		return
	}
	v.learn(m.Roll)
}

// enter has this machine vote in the roll's epoch once it holds what a majority of the
// voters before held at the end. Its own registers count, if they were complete then.
func (v *voting) enter() {
	if !v.seated() || v.ready == v.roll.Epoch {
		return
	}
	have := len(v.copied)
	if _, ok := seatOf(v.roll.Before, v.c.self.ID); ok && v.complete() {
		have++
	}
	if have >= v.need(v.roll.Before) || len(v.roll.Before) == 0 && v.roll.Epoch == 1 {
		v.becomeReady()
		return
	}
	if v.c.now.Before(v.nextCopy) {
		return
	}
	v.nextCopy = v.c.now.Add(copyEvery)
	for _, s := range v.roll.Before {
		if !v.copied[s.Machine] {
			v.c.send(s.Machine, CopyAsk{v.roll})
		}
	}
}

// copyEvery is how often the voters before are asked for what is still missing, and
// offerEvery how often a voter that lost its seat's token asks for a new seat.
const (
	copyEvery  = time.Second
	offerEvery = 5 * time.Second
)

// complete reports whether this machine holds all that was chosen in the epoch before.
func (v *voting) complete() bool { return v.ready != 0 && v.ready >= v.roll.Previous }

// receiveCopyAsk answers with all registers, once this machine has left the epoch before.
func (v *voting) receiveCopyAsk(from crdt.MachineID, m CopyAsk) {
	v.learn(m.Roll)
	if m.Roll.Epoch < v.roll.Epoch {
		v.tell(from)
		return
	}
	if s, ok := seatOf(v.roll.Before, v.c.self.ID); !ok || s.Token != v.token || !v.complete() {
		return
	}
	out := Copy{Epoch: v.roll.Epoch}
	for _, key := range sortedKeys(v.registers) {
		out.Registers = append(out.Registers, Register{Key: key, Acceptor: *v.registers[key]})
	}
	v.c.send(from, out)
}

func (v *voting) receiveCopy(from crdt.MachineID, m Copy) {
	if _, ok := seatOf(v.roll.Before, from); !ok || m.Epoch != v.roll.Epoch || v.ready == m.Epoch || !v.seated() {
		return
	}
	for _, r := range m.Registers {
		a := v.register(r.Key)
		a.Merge(r.Acceptor)
		v.save(r.Key, a)
	}
	v.copied[from] = true
	v.enter()
}

// register returns what this machine keeps of a register.
func (v *voting) register(key string) *quorum.Acceptor {
	if v.registers[key] == nil {
		v.registers[key] = &quorum.Acceptor{}
	}
	return v.registers[key]
}

func (v *voting) save(key string, a *quorum.Acceptor) {
	v.c.put(registerPrefix+key, appendAcceptor(nil, *a))
}

// receivePropose answers as a voter. The promise is durable before the answer leaves.
func (v *voting) receivePropose(from crdt.MachineID, m Propose) {
	if m.Request.Ballot.Epoch != v.roll.Epoch {
		v.tell(from) // who knows better answers with that
		return
	}
	if reply, ok := v.answer(m.Key, m.Request); ok {
		v.c.send(from, Answered{m.Key, reply})
	}
}

func (v *voting) answer(key string, req quorum.Request) (quorum.Reply, bool) {
	_, known := v.registers[key]
	if !v.votes(req.Ballot.Epoch) || !known && len(v.registers) >= maxRegisters || len(req.Value) > maxRegister {
		return quorum.Reply{}, false
	}
	a := v.register(key)
	reply, changed := a.Answer(req)
	if changed {
		v.save(key, a)
	}
	return reply, true
}

// attempt is one round under way.
type attempt struct {
	key   string
	round *quorum.Round
	until time.Time
	again time.Time
	done  func(*quorum.Round)
}

// attemptTime bounds a round; its requests are repeated once on the way.
const attemptTime = 2 * time.Second

// change begins a round for a register; done is told its end, at most attemptTime later,
// and may find it still asking: then it may or may not have taken effect.
func (v *voting) change(key string, change quorum.Change, done func(*quorum.Round)) {
	v.counter++
	b := quorum.Ballot{Epoch: v.roll.Epoch, Counter: v.counter, Machine: v.c.self.ID, Life: v.life}
	a := &attempt{
		key: key, done: done, until: v.c.now.Add(attemptTime), again: v.c.now.Add(attemptTime / 3),
		round: quorum.NewRound(b, machinesOf(v.roll.Seats), v.need(v.roll.Seats), change),
	}
	v.attempts[key] = a
	v.ask(a)
}

// ask sends the round's request to every voter. This machine's own answer leaves
// nothing behind that is not in the turn's commit.
func (v *voting) ask(a *attempt) {
	for _, s := range v.roll.Seats {
		v.c.send(s.Machine, Propose{a.key, a.round.Request()})
	}
	if reply, ok := v.answer(a.key, a.round.Request()); ok {
		v.take(a, v.c.self.ID, reply)
	}
}

func (v *voting) receiveAnswered(from crdt.MachineID, m Answered) {
	if a := v.attempts[m.Key]; a != nil {
		v.take(a, from, m.Reply)
	}
}

func (v *voting) take(a *attempt, from crdt.MachineID, reply quorum.Reply) {
	if a.round.Take(from, reply) {
		v.ask(a)
		return
	}
	v.counter = max(v.counter, a.round.Highest().Counter)
	if a.round.State() != quorum.Asking {
		v.end(a)
	}
}

func (v *voting) end(a *attempt) {
	if v.attempts[a.key] == a {
		delete(v.attempts, a.key)
		a.done(a.round)
	}
}

// overdue repeats what may have been lost, and ends rounds whose time is over.
func (v *voting) overdue() {
	for _, key := range sortedKeys(v.attempts) {
		a := v.attempts[key]
		switch {
		case !v.c.now.Before(a.until):
			v.end(a)
		case !v.c.now.Before(a.again):
			a.again = a.until
			v.ask(a)
		}
	}
}

// nextWake is when there is something to do though nothing happened.
func (v *voting) nextWake() time.Time {
	var next time.Time
	for _, a := range v.attempts {
		next = earliest(next, a.again, a.until)
	}
	if v.stale && v.attempts[rollKey] == nil && v.votes(v.roll.Epoch) {
		next = earliest(next, v.nextLook)
	}
	if _, ok := seatOf(v.roll.Seats, v.c.self.ID); ok && !v.seated() {
		next = earliest(next, v.nextOffer)
	}
	if v.seated() && v.ready != v.roll.Epoch {
		next = earliest(next, v.nextCopy)
	}
	return next
}

// Voters are the machines that decide, as far as this peer knows, and their epoch.
func (c *Core) Voters() (epoch uint64, machines []crdt.MachineID) {
	return c.voting.epoch(), slices.Clone(c.voting.machines())
}
