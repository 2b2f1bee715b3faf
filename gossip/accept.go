package gossip

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// The limits of the listener.
const (
	// maxHandshakes bounds the connections whose peer isn't known yet, and
	// maxHandshakesFrom those from one address, so that one computer can't take them
	// all; more are closed.
	maxHandshakes     = 256
	maxHandshakesFrom = 32
	// maxOpen bounds the connections of members, API included; more are refused.
	maxOpen = 4096
)

// accept takes connections until the listener is closed because ctx ended.
func (t *Transport) accept(ctx context.Context, tasks *sync.WaitGroup) error {
	lobby := lobby{from: map[netip.Addr]int{}}
	wait := 5 * time.Millisecond
	for {
		raw, err := t.listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Out of file descriptors, say: it passes, or it doesn't, but the connections
			// that are open still work.
			t.cfg.Log.Warn("accept a connection", "err", err)
			sleep(ctx, wait)
			wait = min(2*wait, time.Second)
			continue
		}
		wait = 5 * time.Millisecond
		from := addrOf(raw.RemoteAddr())
		if !lobby.enter(from) {
			raw.Close()
			continue
		}
		tasks.Go(func() { t.greet(ctx, raw, func() { lobby.leave(from) }) })
	}
}

// lobby counts the connections whose peer isn't known yet.
type lobby struct {
	mu   sync.Mutex
	all  int
	from map[netip.Addr]int
}

func (l *lobby) enter(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxHandshakes || l.from[a] >= maxHandshakesFrom {
		return false
	}
	l.all++
	l.from[a]++
	return true
}

func (l *lobby) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[a]--; l.from[a] == 0 {
		delete(l.from, a)
	}
}

// greet learns who is there and what for, and hands the connection on.
func (t *Transport) greet(ctx context.Context, raw net.Conn, known func()) {
	secure, err := t.shake(ctx, raw)
	known()
	if err != nil {
		t.cfg.Log.Debug("refuse a connection", "from", raw.RemoteAddr().String(), "err", err)
		return
	}
	state := secure.ConnectionState()
	if state.NegotiatedProtocol == identity.ALPNJoin {
		t.receive(ctx, secure)
		return
	}
	id, ok := t.admit(secure)
	if !ok {
		if state.NegotiatedProtocol == identity.ALPNFrames {
			t.farewell(ctx, secure, id)
		}
		secure.Close()
		return
	}
	t.noteReached(secure)
	if state.NegotiatedProtocol == identity.ALPNAPI {
		t.api.offer(secure)
		return
	}
	t.welcome(ctx, secure, id)
}

func (t *Transport) shake(ctx context.Context, raw net.Conn) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timing.Dial)
	defer cancel()
	secure := tls.Server(t.raw(raw), t.tls.server)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return secure, nil
}

// admit keeps track of a member's connection. The key is asked about once more: it may
// have been removed between the handshake and now, and Recheck sees tracked
// connections only.
func (t *Transport) admit(secure *tls.Conn) (crdt.MachineID, bool) {
	key, err := identity.PeerKey(secure.ConnectionState())
	if err != nil || !t.track(secure.NetConn().(*rawConn), key) {
		return crdt.MachineID{}, false
	}
	_, ok := t.cfg.Trust.Admitted(key)
	return identity.IDOf(key), ok
}

// track notes a member's connection until it is closed; false if there are too many.
func (t *Transport) track(raw *rawConn, key ed25519.PublicKey) bool {
	raw.closed = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, raw)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spawn == nil || len(t.open) >= maxOpen {
		return false
	}
	t.open[raw] = key
	return true
}

func (t *Transport) noteReached(c net.Conn) {
	local, remote := addrOf(c.LocalAddr()), addrOf(c.RemoteAddr())
	if t.cfg.OnReached != nil && local.IsValid() && remote.IsValid() {
		t.cfg.OnReached(local, remote)
	}
}

// welcome serves a member's frames, if its connection is the one to keep.
func (t *Transport) welcome(ctx context.Context, secure *tls.Conn, id crdt.MachineID) {
	c := t.newConn(secure, id, id)
	defer c.close()
	if c.dark != nil && c.dark() {
		return
	}
	if err := secure.SetWriteDeadline(time.Now().Add(t.cfg.Timing.Dial)); err != nil {
		return
	}
	if id == t.self || !t.register(c) {
		_, _ = secure.Write(appendFrame(nil, frame{frameRefuse, []byte{byte(refuseDuplicate)}}))
		return
	}
	// The dialer reads nothing else before this; the writer starts after it.
	if _, err := secure.Write(appendFrame(nil, frame{kind: frameWelcome})); err != nil {
		c.close() // serve finds out and takes the connection back
	}
	t.serve(ctx, c)
}

// farewell tells a machine that was removed so, a few at a time.
func (t *Transport) farewell(ctx context.Context, secure *tls.Conn, id crdt.MachineID) {
	if t.cfg.Removed == nil || !t.cfg.Removed(id) || !t.exit.enter() {
		return
	}
	defer t.exit.leave()
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { secure.NetConn().Close() })
	defer stop()
	if proof := t.cfg.Farewell(ctx, id); len(proof) > 0 && len(proof) < MaxFrame {
		_, _ = secure.Write(appendFrame(nil, frame{frameRefuse, append([]byte{byte(refuseRemoved)}, proof...)}))
	}
}

// receive lets a newcomer speak to the sponsor, a few at a time.
func (t *Transport) receive(ctx context.Context, secure *tls.Conn) {
	defer secure.Close()
	if t.cfg.Join == nil || !t.door.enter() {
		t.cfg.Log.Debug("turn a newcomer away", "from", secure.RemoteAddr().String())
		return
	}
	defer t.door.leave()
	stop := context.AfterFunc(ctx, func() { secure.NetConn().Close() })
	defer stop()
	if err := secure.SetDeadline(time.Now().Add(joinTime)); err != nil {
		return
	}
	t.noteReached(secure)
	t.cfg.Join(ctx, secure)
}

// rawConn is the socket below TLS. It counts what is sent, and tells when it was closed.
type rawConn struct {
	countedConn
	once   sync.Once
	closed func()
}

func (t *Transport) raw(c net.Conn) *rawConn {
	return &rawConn{countedConn: countedConn{c, &t.traffic}}
}

// Close closes the socket.
func (c *rawConn) Close() error {
	c.once.Do(func() {
		if c.closed != nil {
			c.closed()
		}
	})
	return c.countedConn.Close()
}
