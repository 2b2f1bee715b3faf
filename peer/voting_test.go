package peer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/quorum"
)

// voters returns what a node knows of the voters, by name.
func (c *cluster) voters(i int) (epoch uint64, names []string) {
	epoch, ids := c.cores[i-1].core.Voters()
	for _, id := range ids {
		names = append(names, c.cores[i-1].core.nameOf(id))
	}
	slices.Sort(names)
	return epoch, names
}

// cutOff separates nodes from all others.
func (c *cluster) cutOff(nodes ...int) {
	for _, a := range c.cores {
		for _, b := range c.cores {
			if slices.Contains(nodes, a.i) != slices.Contains(nodes, b.i) {
				c.cut[[2]int{a.i, b.i}] = true
			}
		}
	}
	c.connect()
}

func (c *cluster) mend() {
	clear(c.cut)
	c.connect()
}

// remove states at one node that others are out of the cluster.
func (c *cluster) remove(at int, gone ...int) {
	c.t.Helper()
	n := c.cores[at-1]
	for _, g := range gone {
		id := c.cores[g-1].core.self.ID
		n.core.Step(c.now, Manage{Request: 9, Do: func(log *identity.Log, now time.Time) error {
			_, err := log.RemoveMachine(n.key, identity.ClockAt(now), identity.Remove{Machine: id, Cut: crdt.Heads{}})
			return err
		}})
	}
}

// restart starts a node again from its disk.
func (c *cluster) restart(i int) {
	n := c.cores[i-1]
	var records [][]byte
	for k := 0; n.local[AuthKey(k)] != nil; k++ {
		records = append(records, n.local[AuthKey(k)])
	}
	c.boot(n, records, n.core.trust.Genesis())
	c.connect()
}

func TestVotersGrowAndArePublished(t *testing.T) {
	c := newCluster(t, 9)
	c.run(30 * time.Second)
	epoch, names := c.voters(9)
	if len(names) != identity.MaxVoters {
		t.Fatalf("voters %v in epoch %d, want %d of them", names, epoch, identity.MaxVoters)
	}
	for _, n := range c.cores {
		published := n.core.Trust().Voters()
		if e, ids := n.core.Voters(); e != epoch || published.Epoch != epoch || !slices.Equal(published.Machines, ids) {
			t.Errorf("%s knows epoch %d, and %d is published; want %d", n.core.self.Name, e, published.Epoch, epoch)
		}
	}
}

func TestRemovedVoterIsReplaced(t *testing.T) {
	c := newCluster(t, 8)
	c.run(30 * time.Second)
	_, before := c.voters(1)
	gone := int(before[2][1] - '0')
	c.cutOff(gone)
	c.remove(gone%8+1, gone)
	c.run(30 * time.Second)
	_, after := c.voters(gone%8 + 1)
	if len(after) != identity.MaxVoters || slices.Contains(after, before[2]) {
		t.Errorf("voters %v, want seven without %s", after, before[2])
	}
}

// TestMinorityStaysOne: two of five remove the three others, and still decide nothing.
func TestMinorityStaysOne(t *testing.T) {
	c := newCluster(t, 5)
	c.run(20 * time.Second)
	epoch, names := c.voters(1)
	if len(names) != 5 {
		t.Fatalf("voters %v, want five", names)
	}
	c.cutOff(1, 2)
	c.remove(1, 3, 4, 5)
	c.run(40 * time.Second)
	for _, i := range []int{1, 2} {
		if e, names := c.voters(i); e != epoch || len(names) != 5 {
			t.Errorf("m%d has voters %v in epoch %d, want the five of %d", i, names, e, epoch)
		}
	}
}

// TestHalfOfTwoGoesOn: of two, the one that is told the other is gone decides alone.
func TestHalfOfTwoGoesOn(t *testing.T) {
	c := newCluster(t, 2)
	c.run(10 * time.Second)
	if _, names := c.voters(1); len(names) != 2 {
		t.Fatalf("voters %v, want two", names)
	}
	c.cutOff(2)
	c.run(20 * time.Second)
	if _, names := c.voters(1); len(names) != 2 {
		t.Fatalf("voters %v before anybody said that m2 is gone", names)
	}
	c.remove(1, 2)
	c.run(10 * time.Second)
	if _, names := c.voters(1); !slices.Equal(names, []string{"m1"}) {
		t.Errorf("voters %v, want m1 alone", names)
	}
}

// TestLostDiskHasNoVote: a voter that comes back with an empty disk votes for nothing
// until the others have given it a new seat.
func TestLostDiskHasNoVote(t *testing.T) {
	c := newCluster(t, 3)
	c.run(10 * time.Second)
	epoch, _ := c.voters(1)
	n := c.cores[2]
	c.cutOff(3)
	maps.DeleteFunc(n.local, func(key string, _ []byte) bool { return !strings.HasPrefix(key, AuthPrefix) })
	c.restart(3)
	if n.core.voting.votes(epoch) {
		t.Fatal("it votes from an empty disk")
	}
	c.mend()
	c.run(20 * time.Second)
	later, names := c.voters(1)
	if later <= epoch || len(names) != 3 || !n.core.voting.votes(later) {
		t.Errorf("epoch %d with %v; m3 votes: %v; want a later one than %d with m3 in it", later, names, n.core.voting.votes(later), epoch)
	}
}

// TestOldestCopyBeginsNothing: the disk of the machine that began the cluster is put back as
// it was before it voted for anything. That is not the beginning again, also when it starts
// once more.
func TestOldestCopyBeginsNothing(t *testing.T) {
	c := newCluster(t, 2)
	n := c.cores[0]
	n.unsound = true
	for range 2 {
		c.restart(1)
		c.turn(n)
		if n.core.voting.votes(1) {
			t.Fatalf("a disk that may have forgotten what it promised votes (sound: %v)", !n.unsound)
		}
		n.unsound = false
	}
}

// TestVoterRemembers: what was promised before a restart holds after it.
func TestVoterRemembers(t *testing.T) {
	c := newCluster(t, 3)
	c.run(10 * time.Second)
	n, asker := c.cores[1], c.cores[0].core.self.ID
	epoch, _ := c.voters(2)
	high := quorum.Ballot{Epoch: epoch, Counter: 1000, Machine: asker, Life: 1}
	n.core.receive(asker, Propose{Key: "test", Request: quorum.Request{Phase: quorum.Prepare, Ballot: high}})
	c.turn(n)
	c.restart(2)
	low := high
	low.Counter = 999
	reply, ok := n.core.voting.answer("test", quorum.Request{Phase: quorum.Accept, Ballot: low, Value: []byte("x")})
	if !ok || reply.OK || reply.Promised != high {
		t.Errorf("got %+v (voting: %v), want a refusal that names the ballot %+v", reply, ok, high)
	}
}

func TestVotingMessagesSurviveTheWire(t *testing.T) {
	b := quorum.Ballot{Epoch: 3, Counter: 4, Machine: crdt.MachineID{5}, Life: 6}
	seats := []Seat{{crdt.MachineID{1}, 7}, {crdt.MachineID{2}, 8}}
	roll := Roll{Epoch: 3, Seats: seats, Previous: 2, Before: seats[:1]}
	acceptor := quorum.Acceptor{Promised: b, Accepted: b, Value: []byte("v")}
	for _, m := range []Message{
		RollCall{roll}, CopyAsk{roll}, Candidate{Ask: true}, Candidate{Token: 9},
		Propose{"k", quorum.Request{Phase: quorum.Accept, Ballot: b, Value: []byte("v")}},
		Answered{"k", quorum.Reply{Phase: quorum.Prepare, Ballot: b, OK: true, Promised: b, Accepted: b, Value: []byte("w")}},
		Copy{Epoch: 3, Registers: []Register{{"k", acceptor}, {"l", quorum.Acceptor{Promised: b}}}},
		Ask{1, crdt.MachineID{2}, 3}, Vote{1, crdt.MachineID{2}, true, 3},
	} {
		frame := EncodeMessage(m)
		got, err := DecodeMessage(frame)
		if err != nil || !slices.Equal(EncodeMessage(got), frame) {
			t.Errorf("%T: %+v became %+v (%v)", m, m, got, err)
		}
		for n := range frame {
			if _, err := DecodeMessage(frame[:n]); err == nil && n > 2 {
				t.Errorf("%T: the first %d of %d bytes are taken for the whole", m, n, len(frame))
			}
		}
	}
}
