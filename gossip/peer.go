package gossip

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// peer is another machine: its send queue, and the connection if there is one.
type peer struct {
	id    crdt.MachineID
	queue *queue
	// kick and rush have room for one signal each: "look again", and "look again, even
	// before the wait for the next dial is over".
	kick, rush chan struct{}

	// Guarded by Transport.mu.
	wanted bool // a connection is to be kept
	asked  bool // something waits for a connection
	conn   *conn
}

func (p *peer) poke()  { signal(p.kick) }
func (p *peer) hurry() { signal(p.rush) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (t *Transport) addPeerLocked(id crdt.MachineID) *peer {
	p := &peer{id: id, queue: newQueue(), kick: make(chan struct{}, 1), rush: make(chan struct{}, 1)}
	t.peers[id] = p
	if t.spawn != nil {
		ctx := t.ctx
		t.spawn(func() { t.keep(ctx, p) })
	}
	return p
}

// keep dials the peer when a connection is wanted, until ctx ends or the peer has been
// of no interest for a while.
func (t *Transport) keep(ctx context.Context, p *peer) {
	wait := t.cfg.Timing.RedialMin
	for ctx.Err() == nil {
		if !t.lacksConn(p) {
			wait = t.cfg.Timing.RedialMin
			if !p.await(ctx, t.cfg.Timing.Idle) && t.settle(p) {
				return
			}
			continue
		}
		err := t.dial(ctx, p)
		if err == nil {
			continue
		}
		t.cfg.Log.Debug("connect to a member", "id", p.id.String(), "err", err)
		if !errors.Is(err, errDuplicate) {
			t.giveUp(p)
		}
		if p.backOff(ctx, jitter(wait)) {
			wait = t.cfg.Timing.RedialMin
		} else {
			wait = min(2*wait, t.cfg.Timing.RedialMax)
		}
	}
}

// lacksConn reports whether the peer is to be dialed.
func (t *Transport) lacksConn(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.conn == nil && (p.wanted || p.asked)
}

// giveUp drops what waits: by the time that the peer is back it would be stale, and
// replication then compares anyway.
func (t *Transport) giveUp(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.conn == nil {
		p.queue.clear()
		p.asked = false
	}
}

// await waits for a signal; false once the time is over.
func (p *peer) await(ctx context.Context, d time.Duration) (signalled bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.kick:
	case <-p.rush:
	case <-timer.C:
		return false
	case <-ctx.Done():
	}
	return true
}

// backOff waits before the next dial; true if it was cut short.
func (p *peer) backOff(ctx context.Context, d time.Duration) (rushed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-p.rush:
	case <-ctx.Done():
	}
	return true
}

// settle forgets a peer that nobody wants, or closes its connection if it carried nothing
// for long. Only the side that dialed closes, so that the one who wants a connection
// ends up as the one who dials.
func (t *Transport) settle(p *peer) (gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.wanted || p.asked:
	case p.conn == nil:
		delete(t.peers, p.id)
		return true
	case p.conn.dialedBy == t.self && p.conn.idleFor(time.Now()) >= t.cfg.Timing.Idle:
		p.conn.retire()
	}
	return false
}

var (
	errDuplicate = errors.New("another connection with the machine is kept")
	errBusy      = errors.New("the machine takes no more connections")
	errRemoved   = errors.New("the machine says that this one was removed from the cluster")
)

// dial connects to the peer at the first of its addresses that works.
func (t *Transport) dial(ctx context.Context, p *peer) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timing.Dial)
	defer cancel()
	secure, err := t.connect(ctx, p.id, identity.ALPNFrames)
	if err != nil {
		return err
	}
	c := t.newConn(secure, p.id, t.self)
	if err := awaitWelcome(c); err != nil {
		c.close()
		return fmt.Errorf("connect to %s: %w", p.id, err)
	}
	if !t.register(c) {
		c.surplus, c.queue = true, p.queue
		c.retire()
		err = errDuplicate
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spawn == nil {
		c.close()
		return context.Canceled
	}
	runCtx := t.ctx
	t.spawn(func() { t.serve(runCtx, c) })
	return err
}

func awaitWelcome(c *conn) error {
	f, err := readFrame(c.in)
	switch {
	case err != nil:
		return readError(err, c.timing.DeadAfter)
	case f.kind == frameWelcome:
		return nil
	case f.kind == frameRefuse && bytes.Equal(f.body, []byte{byte(refuseDuplicate)}):
		return errDuplicate
	case f.kind == frameRefuse && len(f.body) > 1 && f.body[0] == byte(refuseRemoved):
		c.handler(c.peer, f.body[1:])
		return errRemoved
	}
	return errBusy
}

func (t *Transport) newConn(secure secureConn, id, dialedBy crdt.MachineID) *conn {
	c := &conn{
		tls: secure, peer: id, dialedBy: dialedBy, timing: t.cfg.Timing,
		handler: t.cfg.Handler, pongs: t.pings.answer, count: &t.count,
		retired: make(chan struct{}), done: make(chan struct{}),
	}
	if t.cfg.Filter != nil {
		c.dark = func() bool { return !t.cfg.Filter(id) }
	}
	c.in = bufio.NewReaderSize(liveReader{c}, batchBytes/2)
	return c
}

// register makes c the peer's connection, unless the one that is there is to be kept.
// Both machines decide alike, in whichever order they learn of two connections: the one
// dialed by the machine with the lower ID is kept; of two by the same, the newer.
func (t *Transport) register(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[c.peer]
	if p == nil {
		p = t.addPeerLocked(c.peer)
	}
	old := p.conn
	if old != nil && !prevails(c, old) {
		// If the old one is a leftover of the peer's last life, this shows it at once.
		_ = p.queue.push(frame{kind: frameIdle}, true)
		return false
	}
	c.queue = p.queue
	p.conn, p.asked = c, false
	if old != nil {
		c.after = old.done
		old.retire()
	} else {
		t.news.set(c.peer, true)
	}
	p.poke()
	return true
}

func prevails(c, old *conn) bool {
	if c.dialedBy == old.dialedBy {
		return true
	}
	return bytes.Compare(c.dialedBy[:], old.dialedBy[:]) < 0
}

// serve runs a registered connection to its end.
func (t *Transport) serve(ctx context.Context, c *conn) {
	t.cfg.Log.Debug("connected", "id", c.peer.String(), "dialed", c.dialedBy == t.self)
	err := c.run(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[c.peer]
	if p == nil || p.conn != c {
		return
	}
	t.cfg.Log.Debug("disconnected", "id", c.peer.String(), "err", err)
	p.conn = nil
	bulk, control := p.queue.waiting()
	p.asked = bulk+control > 0
	t.news.set(c.peer, false)
	p.poke()
}
