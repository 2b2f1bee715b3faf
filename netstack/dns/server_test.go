package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack/service"
)

// outside is the world's names, as upstream knows them.
func outside(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	switch text := q.Question[0].Name + " " + dns.TypeToString[q.Question[0].Qtype]; text {
	case "four.example. A":
		rr, err := dns.NewRR("four.example. 60 IN A 198.51.100.1")
		m.Answer = []dns.RR{rr}
		return m, err
	case "four.example. AAAA":
		rr, err := dns.NewRR("example. 60 IN SOA ns.example. hostmaster.example. 1 2 3 4 60")
		m.Ns = []dns.RR{rr}
		return m, err
	case "long.example. TXT":
		for i := range 40 {
			rr, err := dns.NewRR(fmt.Sprintf("long.example. 60 IN TXT %d%s", i, strings.Repeat("x", 60)))
			if err != nil {
				return nil, err
			}
			m.Answer = append(m.Answer, rr)
		}
		return m, nil
	}
	return nil, errors.New("upstream is out of reach")
}

func newServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{
		Address: addr("1"), Cluster: clusterPrefix, NAT64: netip.MustParsePrefix("64:ff9b:1::/96"),
		Directory: directory(true), Upstream: outside, Log: slog.New(slog.DiscardHandler),
		Translated: func(mode string) bool { return mode == "clat" },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhoGetsWhat: translated pods alone get addresses made from IPv4 ones, and strangers
// get nothing.
func TestWhoGetsWhat(t *testing.T) {
	s := newServer(t, nil)
	const made = "NOERROR; four.example. 60 IN AAAA 64:ff9b:1::c633:6401"
	for _, c := range []struct{ client, query, want string }{
		{"fd12:3456:789a::11", "four.example AAAA", made},
		{"fd12:3456:789a::12", "four.example AAAA", "NOERROR"},
		{"fd12:3456:789a::13", "four.example AAAA", "NOERROR"},
		{"fd12:3456:789a::12", "four.example A", "NOERROR; four.example. 60 IN A 198.51.100.1"},
		{"fd12:3456:789a::11", "web.shop.svc.cluster AAAA", "NOERROR; web.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::5:1"},
		{"fd12:3456:789a::11", "dead.example AAAA", "SERVFAIL"},
		{"2001:db8::1", "four.example A", "REFUSED"},
		{"2001:db8::1", "web.shop.svc.cluster AAAA", "REFUSED"},
		{"::1", "web.shop.svc.cluster AAAA", "NOERROR; web.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::5:1"},
	} {
		if got := show(s.respond(t.Context(), netip.MustParseAddr(c.client), question(c.query))); got != c.want {
			t.Errorf("%s asks for %s:\ngot  %s\nwant %s", c.client, c.query, got, c.want)
		}
	}
}

func TestTooManyAtOnce(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, func(c *Config) {
		c.Upstream = func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			<-release
			return outside(ctx, q)
		}
	})
	for range waiting {
		s.waiting <- struct{}{}
	}
	if got := show(s.respond(t.Context(), addr("12"), question("four.example A"))); got != "SERVFAIL" {
		t.Errorf("got %s while %d wait", got, waiting)
	}
	<-s.waiting
	close(release)
	if got := show(s.respond(t.Context(), addr("12"), question("four.example A"))); !strings.HasPrefix(got, "NOERROR") {
		t.Errorf("afterwards: %s", got)
	}
}

// TestOverTheWire: an answer that is too long for a datagram comes over TCP, and the
// server listens before its address is there.
func TestOverTheWire(t *testing.T) {
	probe, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	probe.Close()
	s := newServer(t, func(c *Config) { c.Address, c.Port = netip.IPv6Loopback(), port })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	ask := func(network string, q *dns.Msg) *dns.Msg {
		t.Helper()
		c := &dns.Client{Net: network, Timeout: 5 * time.Second}
		m, _, err := c.Exchange(q, netip.AddrPortFrom(netip.IPv6Loopback(), port).String())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if got := show(ask("udp", question("web.shop.svc.cluster AAAA"))); !strings.HasPrefix(got, "NOERROR; web") {
		t.Errorf("got %s", got)
	}
	long := question("long.example TXT").SetEdns0(4096, false)
	if m := ask("udp", long); !m.Truncated || m.IsEdns0() == nil {
		t.Errorf("over UDP: truncated %v", m.Truncated)
	}
	if m := ask("tcp", long); m.Truncated || len(m.Answer) != 40 {
		t.Errorf("over TCP: truncated %v, %d records", m.Truncated, len(m.Answer))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// TestForwarderAsksTheMachinesResolvers: the next one if one fails, and each name once
// while its answer lives.
func TestForwarderAsksTheMachinesResolvers(t *testing.T) {
	var asked atomic.Int64
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		asked.Add(1)
		if m, err := outside(context.Background(), q); err == nil {
			_ = w.WriteMsg(m)
			return
		}
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
	})}
	go func() { _ = upstream.ActivateAndServe() }()
	t.Cleanup(func() { _ = upstream.Shutdown() })

	f := NewForwarder(addr("1"), filepath.Join(t.TempDir(), "missing"))
	f.servers, f.read = []string{conn.LocalAddr().String()}, time.Now().Add(time.Hour)
	for range 3 {
		m, err := f.Ask(t.Context(), question("four.example A"))
		if err != nil || len(m.Answer) != 1 {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("upstream was asked %d times for one name", n)
	}
	if _, err := f.Ask(t.Context(), question("dead.example A")); err == nil || !strings.Contains(err.Error(), "SERVFAIL") {
		t.Errorf("a name that upstream can't resolve: %v", err)
	}
}

func TestForwarderReadsResolvConf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := write("own", "nameserver fd12:3456:789a::1\n")
	both := write("both", "nameserver fd12:3456:789a::1\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n")
	servers, err := NewForwarder(addr("1"), filepath.Join(dir, "missing"), own, both).find()
	if err != nil || fmt.Sprint(servers) != "[192.0.2.53:53 [2001:db8::53]:53]" {
		t.Errorf("found %v, %v", servers, err)
	}
	if _, err := NewForwarder(addr("1"), own).find(); err == nil || !strings.Contains(err.Error(), "no resolver to ask") {
		t.Errorf("a machine that names us alone: %v", err)
	}
}

func TestCacheForgetsAndIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(func() time.Time { return now })
	q := question("four.example A")
	m, err := outside(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	c.put(q, m)
	now = now.Add(20 * time.Second)
	if got := c.get(q); got == nil || got.Answer[0].Header().Ttl != 40 {
		t.Fatalf("after 20 s: %v", got)
	}
	if c.get(question("FOUR.example A")) == nil || c.get(question("four.example AAAA")) != nil {
		t.Error("names are told apart by case, or types are not")
	}
	now = now.Add(40 * time.Second)
	if c.get(q) != nil {
		t.Error("a record outlives its TTL")
	}
	for i := range cacheSize + 10 {
		q := question(fmt.Sprintf("n%d.example A", i))
		m := m.Copy()
		m.Question = q.Question
		c.put(q, m)
	}
	if len(c.entries) != cacheSize || c.order.Len() != cacheSize {
		t.Errorf("%d answers are kept", len(c.entries))
	}
	if c.get(question("n0.example A")) != nil || c.get(question(fmt.Sprintf("n%d.example A", cacheSize+9))) == nil {
		t.Error("the wrong one was forgotten")
	}
	empty := new(dns.Msg).SetReply(q)
	c.put(question("empty.example A"), empty)
	if c.get(question("empty.example A")) != nil {
		t.Error("an empty answer without SOA is kept")
	}
}

var _ Directory = (*service.Directory)(nil)
