package gossip

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

func testKey(n int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%032d", n))
}

func keyID(n int) crdt.MachineID { return identity.IDOf(testKey(n).Public().(ed25519.PublicKey)) }

// admitted is a set of machines that tests change.
type admitted struct {
	mu  sync.Mutex
	ids map[crdt.MachineID]bool
}

func admit(numbers ...int) *admitted {
	a := &admitted{ids: map[crdt.MachineID]bool{}}
	for _, n := range numbers {
		a.ids[keyID(n)] = true
	}
	return a
}

func (a *admitted) remove(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ids, keyID(n))
}

func (a *admitted) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := identity.IDOf(pub)
	return identity.Machine{ID: id, PublicKey: pub}, a.ids[id]
}

// book is where the transports of a test are found.
type book struct {
	mu    sync.Mutex
	ports map[crdt.MachineID]uint16
}

func (b *book) lookup(id crdt.MachineID) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if port, ok := b.ports[id]; ok {
		return []string{netip.AddrPortFrom(loopback.Addr(), port).String()}
	}
	return nil
}

func (b *book) set(id crdt.MachineID, port uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ports == nil {
		b.ports = map[crdt.MachineID]uint16{}
	}
	b.ports[id] = port
}

// stream is a transport under test, with what it received.
type stream struct {
	*Transport
	*watcher
	got  map[crdt.MachineID][]string
	up   map[crdt.MachineID]bool
	stop func()
}

func (s *stream) handle(from crdt.MachineID, frame []byte) {
	s.update(func() { s.got[from] = append(s.got[from], string(frame)) })
}

func (s *stream) onPeer(id crdt.MachineID, connected bool) {
	s.update(func() { s.up[id] = connected })
}

func (s *stream) waitUp(t testing.TB, id crdt.MachineID, want bool) {
	t.Helper()
	s.wait(t, fmt.Sprintf("connection of %s with %s is up: %v", s.self, id, want), func() bool { return s.up[id] == want })
}

func fastStreams() StreamTiming {
	t := DefaultStreamTiming()
	t.KeepAlive, t.DeadAfter = 50*time.Millisecond, time.Second
	t.RedialMin, t.RedialMax = 10*time.Millisecond, 100*time.Millisecond
	return t
}

func startStream(t testing.TB, n int, b *book, trust identity.Trust, change func(*TransportConfig)) *stream {
	t.Helper()
	s := &stream{watcher: newWatcher(), got: map[crdt.MachineID][]string{}, up: map[crdt.MachineID]bool{}}
	cfg := TransportConfig{
		Key: testKey(n), Trust: trust, Bind: loopback, Lookup: b.lookup,
		Handler: s.handle, OnPeer: s.onPeer, Timing: fastStreams(), Log: testLog(t),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Transport, err = NewTransport(cfg); err != nil {
		t.Fatal(err)
	}
	s.stop = runTask(t, s.Transport)
	b.set(keyID(n), s.Port())
	return s
}

func TestFramesArriveInOrderBothWays(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, trust, nil)
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprint(i))
		for _, err := range []error{s1.Send(keyID(2), []byte(want[i])), s2.Send(keyID(1), []byte(want[i]))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	sorted := func(list []string) bool { return slices.Equal(list, want) }
	s1.wait(t, "500 frames of 2 at 1", func() bool { return len(s1.got[keyID(2)]) >= len(want) })
	s2.wait(t, "500 frames of 1 at 2", func() bool { return len(s2.got[keyID(1)]) >= len(want) })
	if !sorted(s1.got[keyID(2)]) || !sorted(s2.got[keyID(1)]) {
		t.Error("frames were lost, doubled or reordered")
	}
	if got := s1.Connected(); !slices.Equal(got, []crdt.MachineID{keyID(2)}) {
		t.Errorf("1 is connected to %v", got)
	}
}

func TestPingOverAConnectionMadeForIt(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	s1 := startStream(t, 1, b, trust, nil)
	startStream(t, 2, b, trust, nil)
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	d, err := s1.Ping(ctx, keyID(2))
	if err != nil || d <= 0 || d > time.Second {
		t.Errorf("ping took %v, %v", d, err)
	}
	if _, err := s1.Ping(ctx, keyID(3)); !errors.Is(err, ErrUnknownMachine) {
		t.Errorf("ping of an unknown machine: %v", err)
	}
}

func TestStrangerIsRefusedBothWays(t *testing.T) {
	b := &book{}
	member := startStream(t, 1, b, admit(1), nil)
	stranger := startStream(t, 2, b, admit(1, 2), nil)
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	// In TLS 1.3 the client is done before the server has looked at its key, so that the
	// refusal may only show when something is read.
	if c, err := stranger.DialAPI(ctx, keyID(1)); err == nil {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a stranger's connection to the API works")
		}
		c.Close()
	}
	if err := stranger.dial(ctx, stranger.mustPeer(keyID(1))); err == nil {
		t.Error("a stranger got a connection")
	}
	if err := member.dial(ctx, member.mustPeer(keyID(2))); err == nil {
		t.Error("a member connected to a stranger")
	}
	if len(member.Connected())+len(stranger.Connected()) != 0 {
		t.Error("a stranger is connected")
	}
}

func (s *stream) mustPeer(id crdt.MachineID) *peer {
	s.Transport.mu.Lock()
	defer s.Transport.mu.Unlock()
	return &peer{id: id, queue: newQueue()}
}

func TestRemovedMachineIsDisconnected(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, admit(1, 2), nil)
	s1.SetPeers([]crdt.MachineID{keyID(2)})
	s1.waitUp(t, keyID(2), true)
	trust.remove(2)
	s1.Recheck()
	s1.waitUp(t, keyID(2), false)
	s2.waitUp(t, keyID(1), false)
	if err := s2.dial(t.Context(), s2.mustPeer(keyID(1))); err == nil {
		t.Error("the removed machine got a connection")
	}
}

// A machine that was away when it was removed is told so by whomever it dials, and gets no
// connection; strangers are told nothing.
func TestRemovedMachineIsTold(t *testing.T) {
	b, trust := &book{}, admit(1)
	startStream(t, 1, b, trust, func(c *TransportConfig) {
		c.Removed = func(id crdt.MachineID) bool { return id == keyID(2) }
		c.Farewell = func(_ context.Context, id crdt.MachineID) []byte { return fmt.Appendf(nil, "%s is removed", id) }
	})
	s2, s3 := startStream(t, 2, b, admit(1, 2), nil), startStream(t, 3, b, admit(1, 3), nil)
	if err := s2.dial(t.Context(), s2.mustPeer(keyID(1))); !errors.Is(err, errRemoved) {
		t.Errorf("the removed machine's dial ended with %v", err)
	}
	if err := s3.dial(t.Context(), s3.mustPeer(keyID(1))); err == nil || errors.Is(err, errRemoved) {
		t.Errorf("the stranger's dial ended with %v", err)
	}
	if got, want := s2.got[keyID(1)], []string{keyID(2).String() + " is removed"}; !slices.Equal(got, want) {
		t.Errorf("the removed machine was told %q, want %q", got, want)
	}
	if len(s3.got) != 0 {
		t.Errorf("the stranger was told %q", s3.got)
	}
	s2.SetPeers([]crdt.MachineID{keyID(1)})
	s2.wait(t, "it is told again", func() bool { return len(s2.got[keyID(1)]) > 1 })
	if s2.up[keyID(1)] {
		t.Error("the removed machine is connected")
	}
}

func TestSimultaneousDialsLeaveOneConnection(t *testing.T) {
	for range 20 {
		b, trust := &book{}, admit(1, 2)
		s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, trust, nil)
		s1.SetPeers([]crdt.MachineID{keyID(2)})
		s2.SetPeers([]crdt.MachineID{keyID(1)})
		s1.waitUp(t, keyID(2), true)
		s2.waitUp(t, keyID(1), true)
		s1.wait(t, "one connection of the pair", func() bool { return s1.openConns() == 1 && s2.openConns() == 1 })
		s1.stop()
		s2.stop()
	}
}

// openConns counts the connections, and signals again soon, since nothing else does when
// one closes.
func (s *stream) openConns() int {
	s.Transport.mu.Lock()
	defer s.Transport.mu.Unlock()
	time.AfterFunc(10*time.Millisecond, func() { s.update(func() {}) })
	return len(s.open)
}

func TestRestartedPeerIsConnectedAgain(t *testing.T) {
	for _, first := range []int{1, 2} {
		b, trust := &book{}, admit(1, 2)
		other := 3 - first
		kept, lost := startStream(t, first, b, trust, nil), startStream(t, other, b, trust, nil)
		kept.SetPeers([]crdt.MachineID{keyID(other)})
		kept.waitUp(t, keyID(other), true)
		lost.stop()
		kept.waitUp(t, keyID(other), false)
		again := startStream(t, other, b, trust, nil)
		again.SetPeers([]crdt.MachineID{keyID(first)})
		again.waitUp(t, keyID(first), true)
		kept.waitUp(t, keyID(other), true)
	}
}

func TestSilentConnectionIsFoundDead(t *testing.T) {
	var mu sync.Mutex
	cut := false
	filter := func(crdt.MachineID) bool { mu.Lock(); defer mu.Unlock(); return !cut }
	set := func(v bool) { mu.Lock(); defer mu.Unlock(); cut = v }
	b, trust := &book{}, admit(1, 2)
	s1 := startStream(t, 1, b, trust, func(c *TransportConfig) { c.Filter = filter })
	s2 := startStream(t, 2, b, trust, func(c *TransportConfig) { c.Filter = filter })
	s1.SetPeers([]crdt.MachineID{keyID(2)})
	s1.waitUp(t, keyID(2), true)
	s2.waitUp(t, keyID(1), true)
	start := time.Now()
	set(true)
	s1.waitUp(t, keyID(2), false)
	s2.waitUp(t, keyID(1), false)
	if d := time.Since(start); d < s1.cfg.Timing.DeadAfter/2 {
		t.Errorf("found dead after %v already: not by silence", d)
	}
	set(false)
	s1.waitUp(t, keyID(2), true)
}

func TestBrokenFramesEndTheConnection(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, trust, nil)
	unknown := appendFrame(nil, frame{77, []byte("from a later version")})
	good := appendFrame(nil, frame{frameData, []byte("good")})
	tooLarge := []byte{byte(frameData), 0xff, 0xff, 0xff}
	secure, err := s2.connect(t.Context(), keyID(1), identity.ALPNFrames)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	if _, err := secure.Write(slices.Concat(unknown, good, tooLarge)); err != nil {
		t.Fatal(err)
	}
	s1.wait(t, "the frame after one of an unknown type", func() bool { return slices.Equal(s1.got[keyID(2)], []string{"good"}) })
	s1.wait(t, "the end of the connection", func() bool { return s1.openConns() == 0 })
}

func TestOneComputerCantFillTheLobby(t *testing.T) {
	l := lobby{from: map[netip.Addr]int{}}
	hostile, member := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	n := 0
	for l.enter(hostile) {
		n++
	}
	if n != maxHandshakesFrom || !l.enter(member) {
		t.Errorf("%d handshakes from one address; another finds it full", n)
	}
	l.leave(hostile)
	if !l.enter(hostile) {
		t.Error("a place that was left is not given again")
	}
}

func TestBothFamiliesAreListenedOn(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	all := netip.AddrPortFrom(bindOrDefault(netip.AddrPort{}, 1).Addr(), 0)
	s1 := startStream(t, 1, b, trust, func(c *TransportConfig) { c.Bind = all })
	for _, addr := range []string{"127.0.0.1", "::1"} {
		target := netip.AddrPortFrom(netip.MustParseAddr(addr), s1.Port()).String()
		s2 := startStream(t, 2, b, trust, func(c *TransportConfig) {
			c.Lookup = func(crdt.MachineID) []string { return []string{"127.0.0.1:1", target} }
		})
		ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
		if _, err := s2.Ping(ctx, keyID(1)); err != nil {
			t.Errorf("over %s: %v", addr, err)
		}
		cancel()
		s2.stop()
	}
}

func TestUnwantedConnectionIsClosedWhenIdle(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	short := fastStreams()
	short.Idle = 100 * time.Millisecond
	s1 := startStream(t, 1, b, trust, func(c *TransportConfig) { c.Timing = short })
	s2 := startStream(t, 2, b, trust, nil)
	if err := s1.Send(keyID(2), []byte("once")); err != nil {
		t.Fatal(err)
	}
	s2.wait(t, "the frame", func() bool { return len(s2.got[keyID(1)]) == 1 })
	s1.waitUp(t, keyID(2), false)
	s1.wait(t, "the peer is forgotten", func() bool {
		time.AfterFunc(10*time.Millisecond, func() { s1.update(func() {}) })
		return len(s1.allPeers()) == 0
	})
	s1.SetPeers([]crdt.MachineID{keyID(2)})
	s1.waitUp(t, keyID(2), true)
	idle := newStopwatch(3 * short.Idle)
	s1.wait(t, "time passes", func() bool { return idle.over(s1.watcher) })
	if len(s1.Connected()) != 1 {
		t.Error("a connection that is wanted was closed")
	}
}
