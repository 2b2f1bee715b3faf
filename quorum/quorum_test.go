package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/crdt"
)

func machine(n int) crdt.MachineID { return crdt.MachineID{byte(n)} }

// number and bytesOf keep registers that count.
func number(v []byte) uint64 {
	if v == nil {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func bytesOf(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// lab is a few voters on disks, a network that does what it likes, and proposers that
// each append their mark to the register, so that its value is its own history.
type lab struct {
	voters  []crdt.MachineID
	disks   map[crdt.MachineID]*Acceptor // synced
	flying  []packet
	rounds  map[Ballot]*Round
	counter uint64
	// values holds what was proposed at each ballot, accepts who accepted it.
	values  map[Ballot]string
	accepts map[Ballot]map[crdt.MachineID]bool
	chosen  []string
	// open maps a round to how many values were chosen when it began.
	began map[Ballot]int
}

type packet struct {
	from, to crdt.MachineID
	request  *Request
	reply    *Reply
	ballot   Ballot
}

func newLab(n int) *lab {
	l := &lab{
		disks: map[crdt.MachineID]*Acceptor{}, rounds: map[Ballot]*Round{}, values: map[Ballot]string{},
		accepts: map[Ballot]map[crdt.MachineID]bool{}, began: map[Ballot]int{},
	}
	for i := range n {
		l.voters = append(l.voters, machine(i+1))
		l.disks[machine(i+1)] = &Acceptor{}
	}
	return l
}

// propose begins a round that appends one letter.
func (l *lab) propose(by int, counter uint64) {
	l.counter++
	b := Ballot{Epoch: 1, Counter: counter, Machine: machine(by), Life: l.counter}
	mark := byte('a' + (l.counter-1)%26)
	r := NewRound(b, l.voters, Majority(len(l.voters)), func(present []byte) ([]byte, error) {
		return append(slices.Clone(present), mark), nil
	})
	l.rounds[b], l.began[b] = r, len(l.chosen)
	l.broadcast(r)
}

func (l *lab) broadcast(r *Round) {
	req := r.Request()
	for _, v := range l.voters {
		l.flying = append(l.flying, packet{to: v, request: &req, ballot: r.Ballot()})
	}
}

// deliver hands one packet over. A voter that crashes keeps what it synced only; lost:
// the answer never leaves, synced or not.
func (l *lab) deliver(p packet, crash, synced bool) error {
	if p.reply != nil {
		return l.answered(p)
	}
	disk := l.disks[p.to]
	next := *disk
	reply, _ := next.Answer(*p.request)
	if !crash || synced {
		*disk = next
		l.note(p, reply)
	}
	if !crash {
		l.flying = append(l.flying, packet{from: p.to, reply: &reply, ballot: p.ballot})
	}
	return nil
}

func (l *lab) note(p packet, reply Reply) {
	if p.request.Phase != Accept || !reply.OK {
		return
	}
	if l.accepts[p.ballot] == nil {
		l.accepts[p.ballot] = map[crdt.MachineID]bool{}
	}
	l.accepts[p.ballot][p.to] = true
}

func (l *lab) answered(p packet) error {
	r := l.rounds[p.ballot]
	before := r.State()
	if r.Take(p.from, *p.reply) {
		if old, ok := l.values[p.ballot]; ok && old != string(r.Value()) {
			return fmt.Errorf("ballot %v has the values %q and %q", p.ballot, old, r.Value())
		}
		l.values[p.ballot] = string(r.Value())
		l.broadcast(r)
	}
	if before == Asking && r.State() == Chosen {
		return l.choose(r)
	}
	return nil
}

// choose is the check of linearizability: chosen values are histories, and a history
// holds every one that was chosen before its round began, as a beginning.
func (l *lab) choose(r *Round) error {
	if have := len(l.accepts[r.Ballot()]); have < Majority(len(l.voters)) {
		return fmt.Errorf("ballot %v counts as chosen, %d voters accepted it", r.Ballot(), have)
	}
	value := string(r.Value())
	for i, old := range l.chosen {
		long, short := value, old
		if len(short) > len(long) {
			long, short = short, long
		}
		if long[:len(short)] != short {
			return fmt.Errorf("both %q and %q were chosen: neither goes on from the other", old, value)
		}
		if i < l.began[r.Ballot()] && len(old) >= len(value) {
			return fmt.Errorf("%q was chosen before the round of %q began, which does not go on from it", old, value)
		}
	}
	l.chosen = append(l.chosen, value)
	return nil
}

// TestSafety: whatever is lost, repeated, reordered or cut off by a crash.
func TestSafety(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(rapid.IntRange(1, 5).Draw(t, "voters"))
		for range rapid.IntRange(10, 200).Draw(t, "steps") {
			if len(l.flying) == 0 || rapid.IntRange(0, 12).Draw(t, "begin") == 0 {
				l.propose(rapid.IntRange(1, 3).Draw(t, "by"), rapid.Uint64Range(1, 8).Draw(t, "counter"))
				continue
			}
			i := rapid.IntRange(0, len(l.flying)-1).Draw(t, "packet")
			p := l.flying[i]
			fate := rapid.IntRange(0, 19).Draw(t, "fate")
			if fate != 0 { // else it is delivered once more later
				l.flying = slices.Delete(l.flying, i, i+1)
			}
			if fate == 1 || fate == 2 {
				continue // lost
			}
			if err := l.deliver(p, fate == 3 || fate == 4, fate == 4); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestExhaustive tries every order, with every single loss, of two rounds on three
// voters: as far as the prepare and accept of each go to a majority.
func TestExhaustive(t *testing.T) {
	states := 0
	var walk func(script []int)
	walk = func(script []int) {
		l, open := newLab(3), 0
		l.propose(1, 1)
		l.propose(2, 2)
		for _, choice := range script {
			if choice >= len(l.flying) {
				return
			}
			p := l.flying[choice]
			l.flying = slices.Delete(l.flying, choice, choice+1)
			if err := l.deliver(p, false, false); err != nil {
				t.Fatalf("order %v: %v", script, err)
			}
		}
		open = len(l.flying)
		states++
		if len(script) == 6 {
			finish(t, l, script)
			return
		}
		for i := range open {
			walk(append(slices.Clone(script), i))
		}
	}
	walk(nil)
	t.Logf("%d orders", states)
}

// finish delivers the rest in order, from either end.
func finish(t *testing.T, l *lab, script []int) {
	for len(l.flying) > 0 {
		at := 0
		if len(script)%2 == 0 && script[0]%2 == 1 {
			at = len(l.flying) - 1
		}
		p := l.flying[at]
		l.flying = slices.Delete(l.flying, at, at+1)
		if err := l.deliver(p, false, false); err != nil {
			t.Fatalf("order %v: %v", script, err)
		}
	}
}

func TestAbandonedRoundHasNoEffect(t *testing.T) {
	refusal := errors.New("not this one")
	var a Acceptor
	r := NewRound(Ballot{Epoch: 1, Counter: 1}, []crdt.MachineID{machine(1)}, 1, func([]byte) ([]byte, error) { return nil, refusal })
	reply, _ := a.Answer(r.Request())
	if again := r.Take(machine(1), reply); again || r.State() != Abandoned || !errors.Is(r.Err(), refusal) {
		t.Errorf("state %v, error %v; want the round abandoned", r.State(), r.Err())
	}
	if a.Value != nil || !a.Accepted.IsZero() {
		t.Errorf("the voter accepted %q at %v", a.Value, a.Accepted)
	}
}

// TestEpochsOrderBallots: what an earlier epoch accepted, at whatever counter, gives way
// to the first value of a later one.
func TestEpochsOrderBallots(t *testing.T) {
	old := Acceptor{Promised: Ballot{Epoch: 1, Counter: 900}, Accepted: Ballot{Epoch: 1, Counter: 900}, Value: bytesOf(9)}
	fresh := Acceptor{Promised: Ballot{Epoch: 2, Counter: 1}, Accepted: Ballot{Epoch: 2, Counter: 1}, Value: bytesOf(10)}
	for _, m := range [][2]Acceptor{{old, fresh}, {fresh, old}} {
		a := m[0]
		a.Merge(m[1])
		if number(a.Value) != 10 || a.Accepted.Epoch != 2 {
			t.Errorf("merged to %d of %v, want 10 of epoch 2", number(a.Value), a.Accepted)
		}
	}
}
