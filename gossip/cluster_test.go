package gossip

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// cut says who can't reach whom.
type cut struct {
	mu    sync.Mutex
	sides map[crdt.MachineID]int
}

func (c *cut) set(sides map[crdt.MachineID]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sides = sides
}

func (c *cut) filter(from crdt.MachineID) func(to crdt.MachineID) bool {
	return func(to crdt.MachineID) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sides[from] == c.sides[to]
	}
}

// machine is both tasks of one machine, wired as a peer wires them.
type machine struct {
	*node
	*stream
	id crdt.MachineID
}

func startMachines(t testing.TB, count int, c *cut, streams StreamTiming, timing Timing) []*machine {
	t.Helper()
	numbers := make([]int, count)
	for i := range numbers {
		numbers[i] = i + 1
	}
	trust := admit(numbers...)
	var all []*machine
	for _, n := range numbers {
		m := &machine{id: keyID(n)}
		m.stream = startStream(t, n, &book{}, trust, func(cfg *TransportConfig) {
			cfg.Timing, cfg.Filter = streams, c.filter(m.id)
			cfg.Lookup = func(id crdt.MachineID) []string {
				if m.node == nil {
					return nil
				}
				return m.node.StreamAddrs(id)
			}
		})
		// No frames flow before the node is set: nobody knows this machine's port yet.
		m.node = startNode(t, n, func(cfg *MembershipConfig) {
			cfg.Self.ID, cfg.Self.StreamPort = m.id, m.Port()
			cfg.Timing, cfg.Filter = timing, c.filter(m.id)
			if len(all) > 0 {
				cfg.Seeds = []string{all[0].Addr().String()}
			}
		})
		all = append(all, m)
	}
	for _, m := range all {
		m.waitOthers(t, all, Alive)
		m.connect()
	}
	return all
}

func (m *machine) waitOthers(t testing.TB, others []*machine, want Status) {
	t.Helper()
	for _, other := range others {
		if other != m {
			m.waitStatus(t, other.id, want)
		}
	}
}

func (m *machine) connect() { m.SetPeers(View(m.id, m.Members(), ViewSize, 0)) }

func (m *machine) waitConnected(t testing.TB, others []*machine, want bool) {
	t.Helper()
	for _, other := range others {
		if other != m {
			m.waitUp(t, other.id, want)
		}
	}
}

func TestSplitAndMerge(t *testing.T) {
	c := &cut{}
	all := startMachines(t, 5, c, fastStreams(), fast())
	for _, m := range all {
		m.waitConnected(t, all, true)
	}
	minority, majority := all[:2], all[2:]
	sides := map[crdt.MachineID]int{}
	for _, m := range minority {
		sides[m.id] = 1
	}
	c.set(sides)
	for _, m := range minority {
		m.waitOthers(t, majority, Failed)
		m.waitConnected(t, majority, false)
		m.waitOthers(t, minority, Alive)
	}
	for _, m := range majority {
		m.waitOthers(t, minority, Failed)
		m.waitConnected(t, minority, false)
		m.waitOthers(t, majority, Alive)
	}
	c.set(nil)
	for _, m := range all {
		m.waitOthers(t, all, Alive)
		m.connect()
	}
	for _, m := range all {
		m.waitConnected(t, all, true)
	}
	if err := all[0].Send(all[4].id, []byte("across")); err != nil {
		t.Fatal(err)
	}
	all[4].stream.wait(t, "a frame across the healed cut", func() bool {
		return slices.Contains(all[4].got[all[0].id], "across")
	})
}

func TestLabelAndKeyKeepClustersApart(t *testing.T) {
	ours := startNodes(t, 2, nil)
	strangers := map[string]func(*MembershipConfig){
		"another label": func(c *MembershipConfig) { c.Cluster = "other" },
		"another key":   func(c *MembershipConfig) { c.Keys = [][]byte{bytes.Repeat([]byte{7}, 32)} },
	}
	for name, change := range strangers {
		t.Run(name, func(t *testing.T) {
			theirs := startNode(t, 7, func(c *MembershipConfig) {
				change(c)
				// The same list of addresses, as on one LAN.
				c.Seeds = []string{ours[0].Addr().String(), ours[1].Addr().String()}
			})
			for _, n := range ours {
				if err := theirs.Join(n.Addr().String()); err == nil {
					t.Error("a stranger joined")
				}
				if err := n.Join(theirs.Addr().String()); err == nil {
					t.Error("joined a stranger")
				}
			}
			if len(theirs.Members()) != 0 || len(ours[0].Members()) != 1 || len(ours[1].Members()) != 1 {
				t.Errorf("members: %v, %v, %v", theirs.Members(), ours[0].Members(), ours[1].Members())
			}
		})
	}
}

func TestGossipKeyRotates(t *testing.T) {
	nodes := startNodes(t, 3, nil)
	before, after := make([]byte, 32), bytes.Repeat([]byte{9}, 32)
	for _, keys := range [][][]byte{{before, after}, {after, before}, {after}} {
		for _, n := range nodes {
			if err := n.UseKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	late := startNode(t, 4, func(c *MembershipConfig) {
		c.Keys, c.Seeds = [][]byte{after}, []string{nodes[1].Addr().String()}
	})
	for _, n := range nodes {
		late.waitStatus(t, n.self.ID, Alive)
		n.waitStatus(t, late.self.ID, Alive)
	}
	old := startNode(t, 5, nil)
	if err := old.Join(nodes[0].Addr().String()); err == nil {
		t.Error("the old key still opens the door")
	}
}

func TestRemovedMachineIsNoMember(t *testing.T) {
	var mu sync.Mutex
	gone := map[crdt.MachineID]bool{}
	removed := func(id crdt.MachineID) bool { mu.Lock(); defer mu.Unlock(); return gone[id] }
	nodes := startNodes(t, 3, func(c *MembershipConfig) { c.Removed = removed })
	mu.Lock()
	gone[machineID(3)] = true
	mu.Unlock()
	for _, n := range nodes[:2] {
		n.Recheck()
		n.waitStatus(t, machineID(3), Left)
		n.wait(t, "its row is dropped", func() bool { return len(n.rows) == 1 })
	}
	// It goes on gossiping, and its own news changes nothing.
	if err := nodes[2].SetLevel(9, "after"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].SetLevel(2, "new"); err != nil {
		t.Fatal(err)
	}
	nodes[0].wait(t, "the news of a member", func() bool {
		s := nodes[0].seen[machineID(2)]
		return s[len(s)-1].Level == 2
	})
	if m, _ := nodes[0].Member(machineID(3)); m.Status != Left {
		t.Errorf("the removed machine is %s", m.Status)
	}
}

func TestChangedAddressIsFollowed(t *testing.T) {
	host := &fakeHost{own: []string{"127.0.0.1"}, routes: map[string]string{"127.0.0.1": "127.0.0.1"}}
	all := netip.MustParseAddrPort("0.0.0.0:0")
	patient := fast() // so that a busy computer makes nobody seem dead
	patient.Probe, patient.ProbeTimeout, patient.SuspicionMult = time.Second, 500*time.Millisecond, 8
	nodes := startNodes(t, 2, func(c *MembershipConfig) { c.Bind, c.host, c.Timing = all, host, patient })
	moving := &fakeHost{own: []string{"127.0.0.1"}, routes: map[string]string{"127.0.0.1": "127.0.0.1"}}
	m := startNode(t, 3, func(c *MembershipConfig) {
		c.Bind, c.host, c.Timing = all, moving, patient
		c.Seeds = []string{nodes[0].Addr().String()}
	})
	at := func(n *node, addr string) {
		t.Helper()
		n.wait(t, fmt.Sprintf("%s finds m3 at %s", n.self.Name, addr), func() bool {
			s := n.seen[machineID(3)]
			return len(s) > 0 && s[len(s)-1].Addr.Addr() == netip.MustParseAddr(addr)
		})
	}
	at(nodes[0], "127.0.0.1")
	moving.set([]string{"127.0.0.2"}, map[string]string{"127.0.0.1": "127.0.0.2"})
	for _, n := range nodes {
		at(n, "127.0.0.2")
		n.wait(t, "it never seemed to fail", func() bool {
			return !slices.ContainsFunc(n.seen[machineID(3)], func(m Member) bool { return m.Status != Alive })
		})
	}
	if got := m.Addr().Addr().String(); got != "127.0.0.2" {
		t.Errorf("it advertises %s", got)
	}
}
