package gossip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// apiBacklog is how many API connections may wait to be accepted; more are closed.
const apiBacklog = 64

// apiListener gives the connections of other members that want to speak HTTP/2 to an
// http.Server. Each is a *tls.Conn after its handshake, so that the server finds
// ALPN and key in place: [identity.PeerKey] reads it.
type apiListener struct {
	t     *Transport
	conns chan net.Conn // apiBacklog
	done  chan struct{}
	once  sync.Once
}

func newAPIListener(t *Transport) *apiListener {
	return &apiListener{t: t, conns: make(chan net.Conn, apiBacklog), done: make(chan struct{})}
}

func (l *apiListener) offer(c net.Conn) {
	select {
	case <-l.done:
		c.Close()
		return
	default:
	}
	select {
	case l.conns <- c:
	default:
		l.t.cfg.Log.Warn("too many API connections wait; one was closed", "from", c.RemoteAddr().String())
		c.Close()
	}
}

// Accept waits for the next connection.
func (l *apiListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; the transport goes on.
func (l *apiListener) Close() error {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.conns:
			c.Close()
		default:
			return nil
		}
	}
}

// Addr is the address that the transport listens on.
func (l *apiListener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(l.t.cfg.Bind)
}

// APIListener returns where other members' API connections come in. Serve it with an
// http.Server without a TLSConfig.
func (t *Transport) APIListener() net.Listener { return t.api }

// DialAPI opens a connection to another member's API: HTTP/2 over mutual TLS, the
// handshake done.
func (t *Transport) DialAPI(ctx context.Context, id crdt.MachineID) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timing.Dial)
	defer cancel()
	secure, err := t.connect(ctx, id, identity.ALPNAPI)
	if err != nil {
		return nil, err
	}
	return secure, nil
}

// HTTPClient returns the client for another member's API. Whatever host a request
// names, it goes to that machine and no other. The client has no timeout of its own:
// requests carry contexts.
func (t *Transport) HTTPClient(id crdt.MachineID) *http.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.clients[id]; c != nil {
		return c
	}
	c := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		IdleConnTimeout:   time.Minute,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		DialTLSContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return t.DialAPI(ctx, id) },
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("call another machine's API: the URL must begin with https://")
		},
	}}
	t.clients[id] = c
	return c
}

// connect dials the machine at the first of its addresses where it answers, and makes
// sure that it is the machine, and admitted.
func (t *Transport) connect(ctx context.Context, id crdt.MachineID, proto string) (*tls.Conn, error) {
	if t.cfg.Filter != nil && !t.cfg.Filter(id) {
		return nil, fmt.Errorf("connect to %s: %w", id, errFiltered)
	}
	addrs := t.cfg.Lookup(id)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("connect to %s: %w", id, ErrUnknownMachine)
	}
	var errs error
	for _, addr := range addrs {
		secure, err := t.connectAt(ctx, id, addr, proto)
		if err == nil {
			return secure, nil
		}
		errs = errors.Join(errs, fmt.Errorf("connect to %s at %s: %w", id, addr, err))
	}
	return nil, errs
}

func (t *Transport) connectAt(ctx context.Context, id crdt.MachineID, addr, proto string) (*tls.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(t.raw(raw), t.tls.client[proto])
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	got, ok := t.admit(secure)
	switch {
	case !ok:
		err = errors.New("the machine is no longer admitted, or too many connections are open")
	case got != id:
		err = fmt.Errorf("another machine answers there: %s", got)
	}
	if err != nil {
		secure.Close()
		return nil, err
	}
	return secure, nil
}
