package peer

import (
	"slices"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/quorum"
	"starling.dev/starling/sched"
)

// This file changes the roll: one seat at a time, by a majority of those who sit. Every
// voter that sees a change due may propose it; they take turns, so that they seldom meet.

// rollKey is the register that holds the next roll.
const rollKey = "voters"

// turnOf is how long a voter leaves a change to the one before it in the order, and
// lookAgain how soon it tries again.
const (
	turnOf    = 2 * time.Second
	lookAgain = time.Second
)

// touch notes that a change of the roll may be due.
func (v *voting) touch() {
	if v.stale {
		return
	}
	v.stale = true
	v.nextLook = v.c.now.Add(time.Duration(v.rank()) * turnOf)
}

// rank is this voter's place in the order of those that are seen alive.
func (v *voting) rank() int {
	var names []string
	for _, s := range v.roll.Seats {
		if v.c.members.alive(s.Machine) {
			names = append(names, v.c.nameOf(s.Machine))
		}
	}
	for rank := 0; len(names) > 0; rank++ {
		first := sched.Executor(rollKey, names)
		if first == v.c.self.Name {
			return rank
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == first })
	}
	return identity.MaxVoters
}

// settle does what is due at this time.
func (v *voting) settle() {
	v.overdue()
	v.enter()
	v.offer()
	if !v.stale || v.c.now.Before(v.nextLook) || !v.votes(v.roll.Epoch) {
		return
	}
	if v.attempts[rollKey] != nil {
		return
	}
	v.stale = false
	v.publish()
	next, due := v.due()
	if due {
		v.again()
	}
	if next.Epoch > 0 {
		v.propose(next)
	}
}

// again looks once more in a while.
func (v *voting) again() {
	v.stale = true
	v.nextLook = v.c.now.Add(lookAgain + time.Duration(v.c.rand()%uint64(lookAgain)))
}

// offer asks for a new seat in place of one whose token this machine has lost.
func (v *voting) offer() {
	if _, ok := seatOf(v.roll.Seats, v.c.self.ID); !ok || v.seated() || v.c.now.Before(v.nextOffer) {
		return
	}
	v.nextOffer = v.c.now.Add(offerEvery)
	for _, s := range v.roll.Seats {
		v.c.send(s.Machine, Candidate{Token: v.ownToken()})
	}
}

func (v *voting) receiveCandidate(from crdt.MachineID, m Candidate) {
	if m.Ask {
		v.c.send(from, Candidate{Token: v.ownToken()})
		return
	}
	if v.tokens[from] != m.Token {
		v.tokens[from] = m.Token
		v.touch()
	}
	if v.stale {
		v.nextLook = earliest(v.nextLook, v.c.now.Add(time.Duration(v.rank())*turnOf))
	}
}

// due finds the one change that comes next: whoever was removed goes; whoever lost its
// disk gets a new seat; and while there is room the longest admitted machine comes.
// Without a roll, an answer of a candidate is awaited.
func (v *voting) due() (next Roll, due bool) {
	epoch := max(v.roll.Epoch+1, v.c.trust.now.NextEpoch())
	for _, s := range v.roll.Seats {
		if _, member := v.c.trust.names[s.Machine]; !member && len(v.roll.Seats) > 1 {
			return v.roll.without(s.Machine, epoch), true
		}
	}
	for _, s := range v.roll.Seats {
		if token, told := v.tokens[s.Machine]; told && token != s.Token && s.Machine != v.c.self.ID {
			return v.roll.with(Seat{s.Machine, token}, epoch), true
		}
	}
	if len(v.roll.Seats) >= identity.MaxVoters {
		return Roll{}, false
	}
	return v.newcomer(epoch)
}

// asked bounds how many candidates are asked at once.
const asked = 3

func (v *voting) newcomer(epoch uint64) (next Roll, due bool) {
	left := asked
	for _, m := range v.c.trust.now.Members() {
		if _, sits := seatOf(v.roll.Seats, m.ID); sits || !v.c.members.alive(m.ID) {
			continue
		}
		if token, told := v.tokens[m.ID]; told {
			return v.roll.with(Seat{m.ID, token}, epoch), true
		}
		v.c.send(m.ID, Candidate{Ask: true})
		if left--; left == 0 {
			break
		}
	}
	return Roll{}, left < asked
}

// propose has the voters choose the next roll. If one was chosen before, or may have
// been, that one is brought to its end.
func (v *voting) propose(next Roll) {
	present := v.roll.Epoch
	v.change(rollKey, func(value []byte) ([]byte, error) {
		if roll, err := decodeRoll(value); value != nil && err == nil && roll.Epoch > present {
			return value, nil
		}
		return appendRoll(nil, next), nil
	}, v.proposed)
}

func (v *voting) proposed(r *quorum.Round) {
	if r.State() != quorum.Chosen {
		v.again()
		return
	}
	if roll, err := decodeRoll(r.Value()); err == nil {
		v.stale = false
		v.learn(roll)
		v.publish()
	}
}

// publish writes the roll into the authorisation log, so that everybody learns it. The
// log counts epochs by ones; where it is behind, the missing ones are filled in.
func (v *voting) publish() {
	if v.c.cfg.Key == nil || !v.c.members.alive(v.c.self.ID) {
		return
	}
	for v.c.trust.Snapshot().NextEpoch() <= v.roll.Epoch {
		_, err := v.c.trust.PublishVoters(v.c.cfg.Key, identity.ClockAt(v.c.now), machinesOf(v.roll.Seats))
		if err != nil {
			return // it may not; another voter may
		}
	}
}

// lists reports whether a machine is among the voters as this peer knows them.
func (v *voting) lists(m crdt.MachineID) bool { return slices.Contains(v.machines(), m) }
