package gossip

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// DefaultStreamPort is the TCP port of streams.
const DefaultStreamPort = 7947

// TransportConfig says who this machine is and what to do with what arrives.
type TransportConfig struct {
	// Key is the machine's key. Required.
	Key ed25519.PrivateKey
	// Trust is asked at every handshake whether a key is admitted. Required; called
	// concurrently, must not block.
	Trust identity.Trust
	// Bind is where to listen; the zero value means all addresses, port 7947. Port
	// 0 takes a free one.
	Bind netip.AddrPort
	// Lookup returns the addresses (host:port) of a machine's streams, best first.
	// Required; called concurrently.
	Lookup func(crdt.MachineID) []string
	// Handler takes each frame, which it owns. While it blocks nothing more is read from
	// that peer, so the sender's queue fills and not this machine's memory. Calls for
	// different peers are concurrent; for one peer they are in order, one at a time.
	// Required.
	Handler func(from crdt.MachineID, frame []byte)
	// OnPeer is told when a peer becomes connected or is no longer, from one
	// goroutine, the latest state only. Optional.
	OnPeer func(id crdt.MachineID, connected bool)
	// OnReached is told at which local address another machine reached this one; see
	// [Membership.Reached]. Optional.
	OnReached func(local, remote netip.Addr)
	// Join speaks with a newcomer whose key is checked by nobody yet; see [Sponsor]. It
	// returns when the exchange is over; the connection is closed for it. Optional:
	// without it newcomers are turned away.
	Join func(context.Context, *tls.Conn)
	// Removed tells whether a machine was removed by another one, and Farewell returns the
	// frame that proves it: the machine may have been away when it was. To the machine it is
	// a frame like others, of the member that it dialed, at any time. Optional, both or neither; called
	// concurrently, Removed must not block.
	Removed  func(crdt.MachineID) bool
	Farewell func(context.Context, crdt.MachineID) []byte
	// Timing is optional; the zero value means [DefaultStreamTiming].
	Timing StreamTiming
	Log    *slog.Logger // required
	// Filter, for tests, says whether anything may go to a machine. Optional.
	Filter func(to crdt.MachineID) bool
}

// StreamTiming holds the intervals of a [Transport].
type StreamTiming struct {
	KeepAlive    time.Duration // a silent connection says "still here" this often
	DeadAfter    time.Duration // a connection that is silent for so long is dead
	WriteTimeout time.Duration // a peer that takes nothing for so long is stuck
	Coalesce     time.Duration // a busy writer gathers frames for so long
	Dial         time.Duration // limit of one dial and handshake
	RedialMin    time.Duration // first wait before dialing again
	RedialMax    time.Duration // longest wait
	Idle         time.Duration // a connection nobody wants is closed after so long without data
}

// DefaultStreamTiming returns the intervals for a LAN or a WAN of some 100 ms.
func DefaultStreamTiming() StreamTiming {
	return StreamTiming{
		KeepAlive: 2 * time.Second, DeadAfter: 5 * time.Second, WriteTimeout: 30 * time.Second,
		Coalesce: 2 * time.Millisecond, Dial: 5 * time.Second,
		RedialMin: 100 * time.Millisecond, RedialMax: 10 * time.Second, Idle: 2 * time.Minute,
	}
}

func (c *TransportConfig) validate() error {
	switch {
	case len(c.Key) != ed25519.PrivateKeySize:
		return errors.New("configure the transport: the machine's key is required")
	case c.Trust == nil || c.Lookup == nil || c.Handler == nil || c.Log == nil:
		return errors.New("configure the transport: Trust, Lookup, Handler and Log are required")
	case (c.Removed == nil) != (c.Farewell == nil):
		return errors.New("configure the transport: Removed and Farewell are given together")
	}
	return nil
}

// Transport is the task that keeps connections to other members.
type Transport struct {
	cfg     TransportConfig
	self    crdt.MachineID
	tls     secrets
	api     *apiListener
	door    *door // for newcomers
	exit    *door // for those who were removed
	count   counters
	traffic traffic
	pings   pings
	ready   chan struct{} // closed once connections are accepted
	news    *news

	mu       sync.Mutex
	listener net.Listener
	peers    map[crdt.MachineID]*peer
	open     map[*rawConn]ed25519.PublicKey // every member's connection, API included
	spawn    func(func())                   // starts a goroutine that Run waits for; nil while not running
	ctx      context.Context                // of Run, for what spawn starts
	clients  map[crdt.MachineID]*http.Client
}

// NewTransport checks the configuration. Nothing starts before Run.
func NewTransport(cfg TransportConfig) (*Transport, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Timing == (StreamTiming{}) {
		cfg.Timing = DefaultStreamTiming()
	}
	cfg.Bind = bindOrDefault(cfg.Bind, DefaultStreamPort)
	tls, err := newSecrets(cfg)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		cfg:     cfg,
		self:    identity.IDOf(cfg.Key.Public().(ed25519.PublicKey)),
		tls:     tls,
		door:    newDoor(time.Now),
		exit:    newDoor(time.Now),
		ready:   make(chan struct{}),
		news:    newNews(),
		peers:   map[crdt.MachineID]*peer{},
		open:    map[*rawConn]ed25519.PublicKey{},
		clients: map[crdt.MachineID]*http.Client{},
	}
	t.pings.waiting = map[uint64]chan struct{}{}
	t.api = newAPIListener(t)
	return t, nil
}

// String names the task.
func (t *Transport) String() string { return "streams" }

// Ready is closed once connections are accepted.
func (t *Transport) Ready() <-chan struct{} { return t.ready }

// Listen opens the listening socket, so that its port is known before Run. Optional: Run
// does it too.
func (t *Transport) Listen() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", t.cfg.Bind.String())
	if err != nil {
		return fmt.Errorf("listen for streams on %s: %w; is another peer running on this machine?", t.cfg.Bind, err)
	}
	t.listener = l
	return nil
}

// Port is the TCP port that is listened on; 0 before Listen.
func (t *Transport) Port() uint16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener == nil {
		return 0
	}
	return uint16(t.listener.Addr().(*net.TCPAddr).Port)
}

// Run accepts and keeps connections until ctx ends, and is called once.
func (t *Transport) Run(ctx context.Context) error {
	if err := t.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer t.api.Close()
	tasks.Go(func() { t.news.tell(ctx, t.cfg.OnPeer) })
	t.startKeepers(ctx, &tasks)
	stop := context.AfterFunc(ctx, func() { t.listener.Close() })
	defer stop()
	close(t.ready)
	err := t.accept(ctx, &tasks)
	cancel()
	t.closeAll()
	if err != nil {
		return fmt.Errorf("accept streams: %w", err)
	}
	return nil
}

// startKeepers starts the keeper of each peer that is there; from then on they start as
// peers are added.
func (t *Transport) startKeepers(ctx context.Context, tasks *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.spawn = ctx, func(f func()) { tasks.Go(f) }
	for _, p := range t.peers {
		t.spawn(func() { t.keep(ctx, p) })
	}
}

func (t *Transport) closeAll() {
	t.mu.Lock()
	t.spawn = nil
	open := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// SetPeers says to which machines a connection is to be kept open. Others are connected
// to when something is sent to them, or when they connect themselves. Call it whenever
// membership changes, also with the same list: it ends the wait before the next dial.
func (t *Transport) SetPeers(ids []crdt.MachineID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.peers {
		p.wanted = slices.Contains(ids, id)
		p.hurry()
	}
	for _, id := range ids {
		if id != t.self && t.peers[id] == nil {
			t.addPeerLocked(id).wanted = true
		}
	}
}

// Send queues a bulk frame for a machine, and connects to it if need be. The frame must
// not be changed afterwards. Delivery is not promised: see the package's words on loss.
func (t *Transport) Send(to crdt.MachineID, body []byte) error { return t.send(to, body, false) }

// SendControl queues a small frame (at most ControlFrame bytes) that overtakes bulk.
func (t *Transport) SendControl(to crdt.MachineID, body []byte) error {
	return t.send(to, body, true)
}

func (t *Transport) send(to crdt.MachineID, body []byte, control bool) error {
	p, err := t.peerFor(to)
	if err != nil {
		return err
	}
	err = p.queue.push(frame{frameData, body}, control)
	if err != nil {
		return fmt.Errorf("send %d bytes to %s: %w", len(body), to, err)
	}
	return nil
}

// peerFor returns the peer of a machine that can be sent to.
func (t *Transport) peerFor(id crdt.MachineID) (*peer, error) {
	t.mu.Lock()
	p := t.peers[id]
	t.mu.Unlock()
	if p == nil {
		// Lookup is another's code: it is not called with the lock held.
		if id == t.self || len(t.cfg.Lookup(id)) == 0 {
			return nil, fmt.Errorf("send to %s: %w", id, ErrUnknownMachine)
		}
		t.mu.Lock()
		if p = t.peers[id]; p == nil {
			p = t.addPeerLocked(id)
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.conn == nil {
		p.asked = true
		p.poke()
	}
	return p, nil
}

// Connected returns the machines that frames flow to and from, sorted.
func (t *Transport) Connected() []crdt.MachineID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []crdt.MachineID
	for id, p := range t.peers {
		if p.conn != nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// Recheck asks Trust again about every machine that is connected, disconnects those
// that are no longer admitted, and dials the others without further wait. Call it when the authorisation log changed.
func (t *Transport) Recheck() {
	t.mu.Lock()
	open := maps.Clone(t.open)
	t.mu.Unlock()
	for _, p := range t.allPeers() {
		p.hurry() // who was a stranger may be a member now
	}
	for c, key := range open {
		if _, ok := t.cfg.Trust.Admitted(key); !ok {
			t.cfg.Log.Info("disconnect a machine that is not admitted", "id", identity.IDOf(key).String())
			c.Close()
		}
	}
}

func (t *Transport) allPeers() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.peers))
}

// Stats are totals since the start.
type Stats struct {
	FramesIn, FramesOut uint64
	BytesIn, BytesOut   uint64 // of frames, before encryption
	BytesSent           uint64 // of all connections, above TCP
	Dropped             uint64 // frames that a full queue refused, peers of today
}

// Stats returns the totals.
func (t *Transport) Stats() Stats {
	s := Stats{
		FramesIn: t.count.framesIn.Load(), FramesOut: t.count.framesOut.Load(),
		BytesIn: t.count.bytesIn.Load(), BytesOut: t.count.bytesOut.Load(),
		BytesSent: t.traffic.out.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		s.Dropped += p.queue.drops()
	}
	return s
}
