package site

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// listenAgain is how soon a port that another program has is tried again.
	listenAgain = 2 * time.Second
	// drainTime is how long requests that are under way may take when the peer ends.
	drainTime = 5 * time.Second
	// headerTime bounds the time that a client may take to send its request's head.
	headerTime = 30 * time.Second
	// idleTime is how long a connection without a request is kept.
	idleTime = 2 * time.Minute
)

// Config says where a machine serves sites.
type Config struct {
	HTTP, HTTPS netip.AddrPort // [::]:80 and [::]:443, which take IPv4 too. Required.
	Endpoints   Endpoints      // Required.
	// Storage is the directory for what certificate authorities gave. Without it no site
	// gets a certificate by ACME.
	Storage string
	// Others are the other machines, which certificate authorities may ask instead of this
	// one. Optional.
	Others func() []netip.Addr
	Log    *slog.Logger // Required.
}

// Server serves sites. Its methods may be called concurrently.
type Server struct {
	cfg     Config
	handler *handler
	files   *files
	acme    *authority    // nil without Storage
	nudged  chan struct{} // holds one: there are sites now, or none any more

	mu     sync.Mutex // guards what follows
	sites  []Site
	failed error // why the ports are not served
}

// New makes a server; it starts nothing.
func New(cfg Config) (*Server, error) {
	if !cfg.HTTP.IsValid() || !cfg.HTTPS.IsValid() || cfg.Endpoints == nil || cfg.Log == nil {
		return nil, errors.New("configure sites: an address, the endpoints or the logger is missing")
	}
	s := &Server{
		cfg: cfg, handler: newHandler(cfg.Endpoints, cfg.Log), files: &files{read: map[TLS]fileCertificate{}},
		nudged: make(chan struct{}, 1),
	}
	if cfg.Storage != "" {
		s.acme = newAuthority(cfg)
		s.handler.challenge = s.acme.challenge
	}
	return s, nil
}

// String names the task.
func (s *Server) String() string { return "sites" }

// Set says which sites there are. Requests that are under way go on.
func (s *Server) Set(sites []Site) {
	s.handler.table.Store(newTable(sites))
	if s.acme != nil {
		s.acme.set(sites)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sites = sites
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// Failed is why the ports are not served although there are sites; nil while they are.
func (s *Server) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Failures are the hosts that got no certificate, with the reason.
func (s *Server) Failures() map[string]string {
	if s.acme == nil {
		return nil
	}
	return s.acme.failures()
}

// Run serves the ports, while there are sites, until the context ends.
func (s *Server) Run(ctx context.Context) error {
	for {
		s.mu.Lock()
		wanted := len(s.sites) > 0
		s.mu.Unlock()
		var retry <-chan time.Time
		if wanted {
			err := s.serve(ctx)
			if ctx.Err() != nil {
				return nil
			}
			s.fail(err)
			if err != nil {
				s.cfg.Log.Warn("sites are not served on this machine", "error", err, "again", listenAgain)
				retry = time.After(listenAgain)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.nudged:
		case <-retry:
		}
	}
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// serve listens until the context ends or there are no sites.
func (s *Server) serve(ctx context.Context) error {
	plain, err := net.Listen("tcp", s.cfg.HTTP.String())
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	secure, err := net.Listen("tcp", s.cfg.HTTPS.String())
	if err != nil {
		return errors.Join(fmt.Errorf("listen for HTTPS: %w", err), plain.Close())
	}
	s.fail(nil)
	if s.acme != nil {
		s.mu.Lock()
		sites := s.sites
		s.mu.Unlock()
		s.acme.begin(ctx, sites)
		defer s.acme.end()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: s.handler, Protocols: protocols, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog:  slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{GetCertificate: s.certificate, MinVersion: tls.VersionTLS12},
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ignoreClosed(server.Serve(plain)) })
	g.Go(func() error { return ignoreClosed(server.ServeTLS(secure, "", "")) })
	g.Go(func() error {
		s.untilIdle(ctx)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if err := server.Shutdown(drain); err != nil {
			return server.Close() // WebSockets, say, which never end by themselves
		}
		return nil
	})
	return g.Wait()
}

// untilIdle waits until there are no sites.
func (s *Server) untilIdle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudged:
		}
		s.mu.Lock()
		idle := len(s.sites) == 0
		s.mu.Unlock()
		if idle {
			return
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
