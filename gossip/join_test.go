package gossip

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

func publicKey(n int) ed25519.PublicKey { return testKey(n).Public().(ed25519.PublicKey) }

// sponsor is a member that lets others join: a transport, and the log that the core of a
// real peer would hold.
type sponsor struct {
	*stream
	n   int
	mu  sync.Mutex
	log *identity.Log
	// replace, if set, allows replacements.
	replace *identity.Replacement
}

func newCluster(t *testing.T, name string, first int) *identity.Log {
	t.Helper()
	log, err := identity.Begin(identity.BeginConfig{
		Name: name, MachineName: "first", RootKey: testKey(1000 + first), MachineKey: testKey(first),
		Clock: identity.ClockAt(time.Now()),
	}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func startSponsor(t *testing.T, n int, log *identity.Log, b *book) *sponsor {
	t.Helper()
	s := &sponsor{n: n, log: log}
	join := Sponsor{Hello: s.hello, Redeem: s.redeem, Peers: s.peers, Where: b.lookup, Log: testLog(t)}
	s.stream = startStream(t, n, b, s, func(c *TransportConfig) { c.Join = join.Serve })
	return s
}

func (s *sponsor) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Snapshot().Admitted(pub)
}

func (s *sponsor) hello() (identity.Hello, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Hello(publicKey(s.n))
}

func (s *sponsor) redeem(_ context.Context, r identity.Redemption) (identity.JoinReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Replace = s.replace
	if _, err := s.log.Redeem(testKey(s.n), r); err != nil {
		return identity.JoinReply{}, err
	}
	return s.log.Welcome(nil, make([]byte, 32)), nil
}

func (s *sponsor) peers(local netip.Addr) []identity.Peer {
	return []identity.Peer{{Machine: keyID(s.n), Address: netip.AddrPortFrom(local, 7946).String()}}
}

func (s *sponsor) invite(t *testing.T, at time.Time) identity.Token {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _, err := s.log.Invite(testKey(s.n), identity.Invitation{
		Sponsor: keyID(s.n), Addresses: []string{s.addr()}, Now: at, Life: time.Hour,
	}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (s *sponsor) addr() string { return netip.AddrPortFrom(loopback.Addr(), s.Port()).String() }

func join(t *testing.T, n int, name string, token identity.Token, change func(*JoinConfig)) (JoinResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	cfg := JoinConfig{Token: token, Key: testKey(n), Name: name}
	if change != nil {
		change(&cfg)
	}
	return Join(ctx, cfg)
}

func TestJoin(t *testing.T) {
	b := &book{}
	s := startSponsor(t, 1, newCluster(t, "test", 1), b)
	r, err := join(t, 2, "second", s.invite(t, time.Now()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := r.Log.Snapshot().ByKey(publicKey(2)); !ok || m.Name != "second" || m.Removed {
		t.Errorf("the newcomer's log has it as %+v, %v", m, ok)
	}
	want := Known{ID: keyID(1), Addr: netip.AddrPortFrom(loopback.Addr(), 7946)}
	if r.Sponsor != keyID(1) || len(r.Known) != 1 || r.Known[0] != want || r.LocalAddr != loopback.Addr() {
		t.Errorf("joined through %s, know %v, from %s", r.Sponsor, r.Known, r.LocalAddr)
	}
	if len(r.GossipKey) != 32 || r.Warning == "" {
		t.Errorf("gossip key of %d bytes; warning at the second machine: %q", len(r.GossipKey), r.Warning)
	}
	// The newcomer is now a member for the sponsor: frames flow.
	newcomer := startSponsor(t, 2, r.Log, b)
	if err := newcomer.Send(keyID(1), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	s.wait(t, "a frame of the new member", func() bool { return len(s.got[keyID(2)]) == 1 })
}

func TestJoinThroughAnotherGoesToTheSponsor(t *testing.T) {
	b := &book{}
	first := startSponsor(t, 1, newCluster(t, "test", 1), b)
	r, err := join(t, 2, "second", first.invite(t, time.Now()), nil)
	if err != nil {
		t.Fatal(err)
	}
	token := first.invite(t, time.Now())
	token.Addresses = nil
	// The second machine has seen the grant, so it can name the sponsor.
	for _, raw := range first.log.Since(0) {
		if _, err := r.Log.Add(raw); err != nil {
			t.Fatal(err)
		}
	}
	second := startSponsor(t, 2, r.Log, b)
	r, err = join(t, 3, "third", token, func(c *JoinConfig) { c.Addr = second.addr() })
	if err != nil {
		t.Fatal(err)
	}
	if r.Sponsor != keyID(1) || r.SponsorAddr != first.addr() {
		t.Errorf("joined through %s at %s", r.Sponsor, r.SponsorAddr)
	}
}

func TestJoinReplacesASilentMachine(t *testing.T) {
	s := startSponsor(t, 1, newCluster(t, "test", 1), &book{})
	if _, err := join(t, 2, "second", s.invite(t, time.Now()), nil); err != nil {
		t.Fatal(err)
	}
	token := s.invite(t, time.Now())
	replace := func(c *JoinConfig) { c.Replace = true }
	if _, err := join(t, 3, "second", token, replace); identity.CodeOf(err) != api.NameTaken {
		t.Errorf("replace a machine that is not silent: %v", err)
	}
	s.mu.Lock()
	s.replace = &identity.Replacement{Cut: crdt.Heads{}}
	s.mu.Unlock()
	r, err := join(t, 3, "second", token, replace)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Log.Snapshot().Admitted(publicKey(2)); ok {
		t.Error("the replaced machine's key is still admitted")
	}
	if _, ok := s.Admitted(publicKey(3)); !ok {
		t.Error("the replacement is no member")
	}
}

func TestJoinFailsWithACode(t *testing.T) {
	s := startSponsor(t, 1, newCluster(t, "test", 1), &book{})
	other := startSponsor(t, 9, newCluster(t, "other", 9), &book{})
	used := s.invite(t, time.Now())
	if _, err := join(t, 2, "second", used, nil); err != nil {
		t.Fatal(err)
	}
	unknown := s.invite(t, time.Now())
	unknown.Seed[0]++
	foreign := other.invite(t, time.Now())
	foreign.Addresses = []string{s.addr()}
	tests := []struct {
		name   string
		token  identity.Token
		change func(*JoinConfig)
		as     string
		want   string
	}{
		{"used", used, nil, "third", api.TokenUsed},
		{"unknown", unknown, nil, "third", api.TokenInvalid},
		{"foreign", foreign, nil, "third", api.WrongCluster},
		{"expired", s.invite(t, time.Now().Add(-2*time.Hour)), nil, "third", api.TokenExpired},
		{"name taken", s.invite(t, time.Now()), nil, "second", api.NameTaken},
		{"bad name", s.invite(t, time.Now()), nil, "Third!", api.Invalid},
		{"clock", s.invite(t, time.Now()), func(c *JoinConfig) {
			c.Now = func() time.Time { return time.Now().Add(6 * time.Minute) }
		}, "third", api.ClockSkew},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := s.log.Len()
			_, err := join(t, 3, tt.as, tt.token, tt.change)
			if got := identity.CodeOf(err); got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
			if _, ok := s.Admitted(publicKey(3)); ok {
				t.Error("it was admitted all the same")
			}
			if s.log.Len() != before {
				t.Error("the refused join left something in the log")
			}
		})
	}
}

func TestTokenIsNotShownToAWrongCluster(t *testing.T) {
	asked := make(chan struct{}, 1)
	other := &sponsor{n: 9, log: newCluster(t, "other", 9)}
	b := &book{}
	door := Sponsor{Hello: other.hello, Where: b.lookup, Peers: other.peers, Log: testLog(t),
		Redeem: func(context.Context, identity.Redemption) (identity.JoinReply, error) {
			asked <- struct{}{}
			return identity.JoinReply{}, errors.New("unexpected")
		}}
	other.stream = startStream(t, 9, b, other, func(c *TransportConfig) { c.Join = door.Serve })
	s := startSponsor(t, 1, newCluster(t, "test", 1), &book{})
	token := s.invite(t, time.Now())
	token.Addresses = []string{other.addr()}
	if _, err := join(t, 3, "third", token, nil); identity.CodeOf(err) != api.WrongCluster {
		t.Errorf("got %v", err)
	}
	other.stop()
	if len(asked) != 0 {
		t.Error("the newcomer sent its request to a machine of another cluster")
	}
}

func TestJoinWhereNoPeerIs(t *testing.T) {
	s := startSponsor(t, 1, newCluster(t, "test", 1), &book{})
	token := s.invite(t, time.Now())
	closed := startStream(t, 5, &book{}, admit(5), nil) // a peer that lets nobody join
	tests := []struct{ name, addr, want string }{
		{"nobody listens", deadPort(t), "nobody listens at"},
		{"no TLS", echoServer(t), "is not a Starling peer"},
		{"closed door", netip.AddrPortFrom(loopback.Addr(), closed.Port()).String(), "turned the connection away"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := token
			token.Addresses = []string{tt.addr}
			_, err := join(t, 3, "third", token, nil)
			if !errors.Is(err, ErrNoPeer) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.addr) {
				t.Errorf("got: %v", err)
			}
			// An address that leads nowhere does not keep from the sponsor.
			token.Addresses = []string{tt.addr, s.addr()}
			if _, err := join(t, 3, "third", token, nil); err != nil {
				t.Errorf("with the sponsor's address second: %v", err)
			}
		})
	}
}

func deadPort(t *testing.T) string {
	l, err := net.Listen("tcp", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// echoServer sends back what it gets: it speaks no TLS.
func echoServer(t *testing.T) string {
	l, err := net.Listen("tcp", loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestDoorLimitsNewcomers(t *testing.T) {
	now := time.Unix(0, 0)
	d := newDoor(func() time.Time { return now })
	inside := 0
	for d.enter() {
		inside++
	}
	if inside != maxNewcomers {
		t.Errorf("%d newcomers at a time, want %d", inside, maxNewcomers)
	}
	knocks := inside
	for d.leave(); d.enter(); d.leave() {
		knocks++
	}
	if knocks != knocksBurst {
		t.Errorf("%d knocks at once, want %d", knocks, knocksBurst)
	}
	now = now.Add(knocksEvery)
	if !d.enter() {
		t.Error("closed although time has passed")
	}
	d.leave()
	if d.enter() {
		t.Error("open for more than one more")
	}
}
