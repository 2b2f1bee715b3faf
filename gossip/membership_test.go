package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

const testDeadline = 20 * time.Second

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// fast is a timing for tests on loopback.
func fast() Timing {
	return Timing{
		Probe: 100 * time.Millisecond, ProbeTimeout: 50 * time.Millisecond, SuspicionMult: 2,
		Gossip: 20 * time.Millisecond, PushPull: time.Second, Stream: 2 * time.Second,
		RejoinMin: 50 * time.Millisecond, RejoinMax: 300 * time.Millisecond,
		AddressRecheck: 100 * time.Millisecond, Broadcast: time.Second, LeaveDelay: 100 * time.Millisecond,
	}
}

func testLog(t testing.TB) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return slog.New(slog.DiscardHandler)
}

func machineID(n int) crdt.MachineID { return crdt.MachineID{0: byte(n), 15: byte(n)} }

// watcher collects what a membership reports, and lets a test wait for it.
type watcher struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every report
	seen    map[crdt.MachineID][]Member
	rows    []Known
}

func newWatcher() *watcher {
	return &watcher{changed: make(chan struct{}), seen: map[crdt.MachineID][]Member{}}
}

func (w *watcher) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) member(m Member) { w.update(func() { w.seen[m.ID] = append(w.seen[m.ID], m) }) }
func (w *watcher) peers(k []Known) { w.update(func() { w.rows = k }) }

// wait blocks until ok, which is called with the lock held, holds.
func (w *watcher) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(testDeadline)
	for {
		w.mu.Lock()
		done, changed := ok(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited %s for: %s", testDeadline, what)
		}
	}
}

// node is a membership under test.
type node struct {
	*Membership
	*watcher
	stop func()
}

func (n *node) waitStatus(t testing.TB, id crdt.MachineID, want Status) {
	t.Helper()
	n.wait(t, fmt.Sprintf("%s sees %s %s", n.self.Name, id, want), func() bool {
		s := n.seen[id]
		return len(s) > 0 && s[len(s)-1].Status == want
	})
}

func startNode(t testing.TB, i int, change func(*MembershipConfig)) *node {
	t.Helper()
	w := newWatcher()
	cfg := MembershipConfig{
		Cluster: "test", Keys: [][]byte{make([]byte, 32)}, Bind: loopback, Timing: fast(),
		Self:     Self{ID: machineID(i), Name: fmt.Sprintf("m%d", i), StreamPort: uint16(10000 + i), Level: 1, Version: "test"},
		OnMember: w.member, OnPeers: w.peers, Log: testLog(t),
	}
	if change != nil {
		change(&cfg)
	}
	m, err := NewMembership(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Membership: m, watcher: w, stop: runTask(t, m)}
}

type task interface {
	Run(context.Context) error
	Ready() <-chan struct{}
}

// runTask runs a task until the test ends or the returned function is called, and waits
// until it is ready.
func runTask(t testing.TB, task task) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("run %v: %v", task, err)
				}
			case <-time.After(testDeadline):
				t.Errorf("%v did not stop", task)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-task.Ready():
	case err := <-done:
		t.Fatalf("run %v: %v", task, err)
	case <-time.After(testDeadline):
		t.Fatalf("%v did not become ready", task)
	}
	return stop
}

func startNodes(t testing.TB, n int, change func(*MembershipConfig)) []*node {
	var nodes []*node
	for i := 1; i <= n; i++ {
		nodes = append(nodes, startNode(t, i, func(c *MembershipConfig) {
			if len(nodes) > 0 {
				c.Seeds = []string{nodes[0].Addr().String()}
			}
			if change != nil {
				change(c)
			}
		}))
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				a.waitStatus(t, b.self.ID, Alive)
			}
		}
	}
	return nodes
}

func TestMembersSeeEachOther(t *testing.T) {
	nodes := startNodes(t, 3, nil)
	got, ok := nodes[2].Member(machineID(2))
	if !ok {
		t.Fatal("m2 is no member")
	}
	want := Member{
		ID: machineID(2), Name: "m2", Addr: nodes[1].Addr(), StreamPort: 10002,
		Level: 1, Version: "test", Status: Alive, Since: got.Since,
	}
	if got != want {
		t.Errorf("m3 sees\n%+v, want\n%+v", got, want)
	}
}

func TestPeerTableIsToldAsItGrows(t *testing.T) {
	nodes := startNodes(t, 3, nil)
	want := []Known{
		{ID: machineID(1), Name: "m1", Addr: nodes[0].Addr(), StreamPort: 10001},
		{ID: machineID(3), Name: "m3", Addr: nodes[2].Addr(), StreamPort: 10003},
	}
	nodes[1].wait(t, "both others are in the rows to save", func() bool { return slices.Equal(nodes[1].rows, want) })
}

func TestSilentMachineIsFailedAndLeaverIsLeft(t *testing.T) {
	nodes := startNodes(t, 4, nil)
	nodes[3].stop()
	nodes[0].waitStatus(t, machineID(4), Failed)
	nodes[1].waitStatus(t, machineID(4), Failed)

	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	if err := nodes[2].Leave(ctx); err != nil {
		t.Fatal(err)
	}
	nodes[2].stop()
	nodes[0].waitStatus(t, machineID(3), Left)
	nodes[1].waitStatus(t, machineID(3), Left)
	nodes[0].wait(t, "the leaver's row is dropped, the silent one's kept", func() bool {
		return len(nodes[0].rows) == 2 && nodes[0].rows[0].ID == machineID(2) && nodes[0].rows[1].ID == machineID(4)
	})
}

func TestRestartAtNewPortRejoinsFromPeerTable(t *testing.T) {
	nodes := startNodes(t, 3, nil)
	old := nodes[2].Addr()
	known := nodes[2].Known()
	nodes[2].stop()
	// The old port is held, so that the kernel gives out another.
	holder, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(old))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	// Nobody is given time to notice: memberlist alone would refuse the new address.
	again := startNode(t, 3, func(c *MembershipConfig) { c.Known = known })
	for _, n := range nodes[:2] {
		n.wait(t, "the new address is followed", func() bool {
			s := n.seen[machineID(3)]
			last := s[len(s)-1]
			return last.Status == Alive && last.Addr == again.Addr()
		})
		again.waitStatus(t, n.self.ID, Alive)
	}
}

// stopwatch lets a test wait for time to pass the way it waits for all else.
type stopwatch struct {
	end time.Time
}

func newStopwatch(d time.Duration) stopwatch { return stopwatch{time.Now().Add(d)} }

// over reports whether the time has passed, and has the watcher look again when it has.
func (s stopwatch) over(w *watcher) bool {
	left := time.Until(s.end)
	if left > 0 {
		time.AfterFunc(left, func() { w.update(func() {}) })
	}
	return left <= 0
}
