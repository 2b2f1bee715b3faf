package site

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// authority gets certificates from certificate authorities, and renews them in time. What
// it got lies in a directory of the machine.
type authority struct {
	dir    string
	log    *slog.Logger
	host   string // the address that sites are served at
	http   int    // and its port
	others func() []netip.Addr

	mu       sync.Mutex      // guards what follows
	ctx      context.Context // that of Run; nil before
	accounts map[ACME]*account
	failed   map[string]string // by host, why it has no certificate
}

// account is one certificate authority with the hosts that it is asked for.
type account struct {
	cache  *certmagic.Cache
	config *certmagic.Config
	issuer *certmagic.ACMEIssuer
	hosts  map[string]bool
}

func newAuthority(cfg Config) *authority {
	return &authority{
		dir: cfg.Storage, log: cfg.Log, host: cfg.HTTP.Addr().String(), http: int(cfg.HTTP.Port()), others: cfg.Others,
		accounts: map[ACME]*account{}, failed: map[string]string{},
	}
}

// begin says that certificates may be asked for, until the context ends.
func (a *authority) begin(ctx context.Context, sites []Site) {
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	a.set(sites)
}

// end stops everything that was begun.
func (a *authority) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.accounts {
		c.cache.Stop()
	}
	a.accounts, a.ctx = map[ACME]*account{}, nil
}

// set asks for the certificates of the sites that are new.
func (a *authority) set(sites []Site) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil {
		return
	}
	for _, s := range sites {
		if s.TLS.Certificate != "" || s.TLS.ACME.Email == "" {
			continue
		}
		c, err := a.accountLocked(s.TLS.ACME)
		if err != nil {
			a.log.Warn("get certificates for a site", "site", s.Key, "error", err)
			continue
		}
		var fresh []string
		for _, h := range s.Hosts {
			if !c.hosts[h] {
				c.hosts[h], fresh = true, append(fresh, h)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		if err := c.config.ManageAsync(a.ctx, fresh); err != nil {
			a.log.Warn("get certificates for a site", "site", s.Key, "error", err)
		}
	}
}

func (a *authority) accountLocked(acme ACME) (*account, error) {
	if c := a.accounts[acme]; c != nil {
		return c, nil
	}
	var roots *x509.CertPool
	if acme.Trust != "" {
		raw, err := os.ReadFile(acme.Trust)
		if err != nil {
			return nil, err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", acme.Trust)
		}
	}
	c := &account{hosts: map[string]bool{}}
	c.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c.config, nil },
		Logger:           zap.NewNop(),
	})
	c.config = certmagic.New(c.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: filepath.Join(a.dir, url.PathEscape(acme.Directory))},
		OnEvent: a.note, Logger: zap.NewNop(),
	})
	c.issuer = certmagic.NewACMEIssuer(c.config, certmagic.ACMEIssuer{
		CA: acme.Directory, TestCA: acme.Directory, Email: acme.Email, Agreed: true, TrustedRoots: roots,
		DisableTLSALPNChallenge: true, ListenHost: a.host, AltHTTPPort: a.http, Logger: zap.NewNop(),
	})
	c.config.Issuers = []certmagic.Issuer{c.issuer}
	a.accounts[acme] = c
	return c, nil
}

// note keeps what became of a request for a certificate.
func (a *authority) note(_ context.Context, event string, data map[string]any) error {
	host, _ := data["identifier"].(string)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch event {
	case "cert_obtained":
		delete(a.failed, host)
		a.log.Info("a certificate was obtained", "host", host)
	case "cert_failed":
		a.failed[host] = fmt.Sprint(data["error"])
		a.log.Warn("a certificate was not obtained", "host", host, "error", data["error"])
	}
	return nil
}

// failures are the hosts without a certificate, with the reason.
func (a *authority) failures() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.failed)
}

func (a *authority) certificate(hello *tls.ClientHelloInfo, acme ACME) (*tls.Certificate, error) {
	a.mu.Lock()
	c := a.accounts[acme]
	a.mu.Unlock()
	if c == nil {
		return nil, fmt.Errorf("there is no certificate for %q yet", hello.ServerName)
	}
	return c.config.GetCertificate(hello)
}

// passedOn marks a challenge that another machine passed on.
const passedOn = "Starling-Challenge"

// challenge answers a certificate authority that asks whether this is the host (RFC 8555,
// section 8.3). It asks any machine that the name leads to, and not the one which wants the
// certificate, so that machines pass the question on to each other.
func (a *authority) challenge(w http.ResponseWriter, r *http.Request) bool {
	if !certmagic.LooksLikeHTTPChallenge(r) {
		return false
	}
	a.mu.Lock()
	accounts := slices.Collect(maps.Values(a.accounts))
	a.mu.Unlock()
	for _, c := range accounts {
		if c.issuer.HandleHTTPChallenge(w, r) {
			return true
		}
	}
	if r.Header.Get(passedOn) != "" || a.others == nil {
		http.NotFound(w, r)
		return true
	}
	for _, other := range a.others() {
		if a.passOn(w, r, other) {
			return true
		}
	}
	return false
}

// passOnTime bounds how long one machine is asked.
const passOnTime = 2 * time.Second

// passOn asks another machine, and reports whether it had the answer.
func (a *authority) passOn(w http.ResponseWriter, r *http.Request, other netip.Addr) bool {
	ctx, cancel := context.WithTimeout(r.Context(), passOnTime)
	defer cancel()
	had := true
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: netip.AddrPortFrom(other, uint16(a.http)).String()})
			p.Out.Host = p.In.Host
			p.Out.Header.Set(passedOn, "1")
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return http.ErrMissingFile
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { had = false },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return had
}
