package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/dns64"
	"starling.dev/starling/netstack/linux"
)

const (
	defaultPort = 53
	// datagram is the most that is sent to a client over UDP, whatever it says that it
	// takes: more would be fragmented on some links.
	datagram = 1232
	// patience bounds one answer from upstream.
	patience = 5 * time.Second
	// waiting bounds how many answers from upstream are awaited at once.
	waiting = 256
)

// Server answers for names: a task that runs until its context ends.
type Server struct {
	cfg     Config
	zone    zone
	dns64   *dns64.Resolver
	waiting chan struct{} // holds one token per answer that is awaited
	ready   chan struct{}
}

// New makes a Server. It starts nothing.
func New(cfg Config) (*Server, error) {
	if cfg.Port == 0 {
		cfg.Port = defaultPort
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure names: %w", err)
	}
	translator, err := dns64.New(dns64.Config{Prefixes: []netip.Prefix{cfg.NAT64}})
	if err != nil {
		return nil, fmt.Errorf("configure names: %w", err)
	}
	return &Server{
		cfg: cfg, zone: zone{cfg.Directory, cfg.Cluster}, dns64: translator,
		waiting: make(chan struct{}, waiting), ready: make(chan struct{}),
	}, nil
}

// String names the task.
func (s *Server) String() string { return "names" }

// Ready is closed once the server listens.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run answers until the context ends. It may be called again after an error.
func (s *Server) Run(ctx context.Context) error {
	udp, tcp, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen for names at %s: %w", netip.AddrPortFrom(s.cfg.Address, s.cfg.Port), err)
	}
	group, ctx := errgroup.WithContext(ctx)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.serve(ctx, w, q) })
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: handler}, {Listener: tcp, Handler: handler}} {
		stop := context.AfterFunc(ctx, func() {
			udp.Close()
			tcp.Close()
		})
		defer stop()
		group.Go(func() error {
			if err := server.ActivateAndServe(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("answer for names: %w", err)
			}
			return nil
		})
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	return group.Wait()
}

// listen opens both sockets. The address may come later: the machine's network is set up
// when the cluster's state is known.
func (s *Server) listen(ctx context.Context) (udp net.PacketConn, tcp net.Listener, err error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
		})
		return errors.Join(err, failed)
	}}
	at := netip.AddrPortFrom(s.cfg.Address, s.cfg.Port).String()
	err = s.within(func() error {
		if udp, err = lc.ListenPacket(ctx, "udp6", at); err != nil {
			return err
		}
		if tcp, err = lc.Listen(ctx, "tcp6", at); err != nil {
			return errors.Join(err, udp.Close())
		}
		return nil
	})
	return udp, tcp, err
}

func (s *Server) within(f func() error) error {
	if s.cfg.Machine == "" {
		return f()
	}
	fd, err := linux.OpenNamespace(s.cfg.Machine)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, q *dns.Msg) {
	client, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil {
		return
	}
	m := s.respond(ctx, client.Addr(), q)
	opt := q.IsEdns0()
	if opt != nil && m.IsEdns0() == nil {
		m.SetEdns0(datagram, opt.Do())
	}
	if _, overUDP := w.RemoteAddr().(*net.UDPAddr); overUDP {
		size := dns.MinMsgSize
		if opt != nil {
			size = min(max(int(opt.UDPSize()), dns.MinMsgSize), datagram)
		}
		m.Truncate(size)
	}
	if err := w.WriteMsg(m); err != nil && ctx.Err() == nil {
		s.cfg.Log.Debug("an answer was not sent", "client", client, "error", err)
	}
}

// knows reports whether a client is of the cluster: by its prefix, or as a pod, which has
// an address of the LAN in mode lan.
func (s *Server) knows(client netip.Addr) bool {
	if s.cfg.Cluster.Contains(client) || client.IsLoopback() {
		return true
	}
	owner, ok := s.cfg.Directory.Owner(client)
	return ok && owner.Pod != nil
}

// respond answers one query.
func (s *Server) respond(ctx context.Context, client netip.Addr, q *dns.Msg) *dns.Msg {
	switch {
	case !s.knows(client):
		return new(dns.Msg).SetRcode(q, dns.RcodeRefused)
	case q.Opcode != dns.OpcodeQuery:
		return new(dns.Msg).SetRcode(q, dns.RcodeNotImplemented)
	case len(q.Question) != 1:
		return new(dns.Msg).SetRcode(q, dns.RcodeFormatError)
	}
	if s.zone.ours(strings.ToLower(dns.Fqdn(q.Question[0].Name))) && q.Question[0].Qclass == dns.ClassINET {
		return s.zone.answer(q)
	}
	m, err := s.forward(ctx, client, q)
	if err != nil {
		s.cfg.Log.Debug("a name was not resolved", "name", q.Question[0].Name, "error", err)
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	}
	m.Id = q.Id
	return m
}

// errBusy means that too many answers are awaited already.
var errBusy = errors.New("too many names are being looked up")

func (s *Server) forward(ctx context.Context, client netip.Addr, q *dns.Msg) (*dns.Msg, error) {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o, ok := s.cfg.Directory.Owner(client); ok && o.Pod != nil && s.cfg.Translated(o.Pod.IPv4) {
		return s.dns64.Resolve(ctx, q, dns64.Upstream(s.cfg.Upstream))
	}
	return s.cfg.Upstream(ctx, q)
}
