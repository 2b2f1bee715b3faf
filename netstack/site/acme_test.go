package site

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// names answers every name with one address.
func names(t *testing.T, address netip.Addr) (server string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: address.AsSlice(),
			})
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return l.Addr().String()
}

// newAuthorityServer is a certificate authority (Let's Encrypt's own for tests) that asks
// for proof at the address. It returns its directory, the file with its server's root, and
// what trusts the certificates that it makes.
func newAuthorityServer(t *testing.T, at netip.AddrPort) (directory, trust string, roots *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	maker := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "default"}})
	asker := va.New(quiet, int(at.Port()), int(at.Port()), false, names(t, at.Addr()), store)
	front := wfe.New(quiet, store, asker, maker, []string{"ca.example"}, false, false, 1, 1)
	s := httptest.NewTLSServer(front.Handler())
	t.Cleanup(s.Close)
	trust = filepath.Join(t.TempDir(), "root.pem")
	write(t, trust, "CERTIFICATE", s.Certificate().Raw)
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(maker.GetRootCert(0).PEM())
	return s.URL + wfe.DirectoryPath, trust, roots
}

// A machine gets a certificate from an authority that asks another one for proof, since
// the host's name leads there.
func TestCertificateByACME(t *testing.T) {
	port := freePort(t).Port()
	first := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.11"), port)
	second := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.12"), port)
	directory, trust, roots := newAuthorityServer(t, second)
	// The other machine serves another site. (It would ask for a certificate of its own, if
	// it served the same; but certmagic has one place for that in each process.)
	asked := newWorld(t, func(c *Config) {
		c.HTTP, c.Storage = second, t.TempDir()
		c.Others = func() []netip.Addr { return []netip.Addr{first.Addr()} }
	})
	asked.serve(named("b", []string{"other.example.com"}, to("/", "web")))
	w := newWorld(t, func(c *Config) { c.HTTP, c.Storage = first, t.TempDir() })
	w.http = first
	w.pod("web", says("well"))
	s := named("a", []string{"shop.example.com"}, to("/", "web"))
	s.TLS.ACME = ACME{Email: "a@example.com", Directory: directory, Trust: trust}
	w.serve(s)
	deadline := time.After(60 * time.Second)
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		answer, err := w.client(&tls.Config{RootCAs: roots}).Get("https://shop.example.com/")
		if err == nil {
			defer answer.Body.Close()
			if raw, err := io.ReadAll(answer.Body); err != nil || string(raw) != "well" {
				t.Errorf("got %q, %v", raw, err)
			}
			return
		}
		select {
		case <-deadline:
			t.Fatalf("no certificate: %v; %v", err, w.server.Failures())
		case <-ticker.C:
		}
	}
}

// Why there is no certificate is told.
func TestACMEFailureIsTold(t *testing.T) {
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.13"), freePort(t).Port())
	directory, trust, _ := newAuthorityServer(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.14"), at.Port())) // nobody is there
	w := newWorld(t, func(c *Config) { c.HTTP, c.Storage = at, t.TempDir() })
	w.pod("web", says("well"))
	s := named("a", []string{"shop.example.com"}, to("/", "web"))
	s.TLS.ACME = ACME{Email: "a@example.com", Directory: directory, Trust: trust}
	w.serve(s)
	deadline := time.After(60 * time.Second)
	for ticker := time.NewTicker(50 * time.Millisecond); w.server.Failures()["shop.example.com"] == ""; {
		select {
		case <-deadline:
			t.Fatal("nobody says why there is no certificate")
		case <-ticker.C:
		}
	}
	if why := w.server.Failures()["shop.example.com"]; !strings.Contains(why, "127.0.0.14") {
		t.Errorf("the reason is %q", why)
	}
}
