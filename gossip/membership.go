package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"golang.org/x/sync/errgroup"

	"starling.dev/starling/crdt"
)

// DefaultGossipPort is the UDP and TCP port of membership.
const DefaultGossipPort = 7946

// eventQueue is how many of serf's events may wait. They are taken by a goroutine that
// only updates a map, so this absorbs a merge of two halves without holding serf up.
const eventQueue = 1024

// MembershipConfig says who this machine is and how it finds the others.
type MembershipConfig struct {
	// Cluster is the label that keeps clusters apart: messages of another label are
	// dropped unread. Required, at most 64 bytes; the cluster's short ID.
	Cluster string
	// Keys encrypt gossip (16, 24 or 32 bytes each). The first is used to send, all to
	// receive. Required: at least one.
	Keys [][]byte
	Self Self // required
	// Bind is where to listen; the zero value means all addresses, port 7946. Port
	// 0 takes a free one.
	Bind netip.AddrPort
	// Advertise is the address that others are told. Optional: by default it is the
	// source address towards the machine through which this one joins.
	Advertise netip.Addr
	// Seeds are addresses (host:port) to join through. Optional.
	Seeds []string
	// Known is the peer table of the last run. Optional.
	Known []Known
	// Removed tells whether a machine was removed from the cluster: it is then no
	// member, whatever it says. Optional; it must not block.
	Removed func(crdt.MachineID) bool
	// OnMember is told every member whose state changed, with its latest state:
	// changes that follow each other quickly are told as one. OnPeers is told the rows
	// to save. Both are called from one goroutine, one call at a time; while one
	// blocks, later news wait but gossip does not. Optional.
	OnMember func(Member)
	OnPeers  func([]Known)
	// Timing is optional; the zero value means [LAN].
	Timing Timing
	Log    *slog.Logger // required
	// Filter, for tests, says whether packets and streams may go to a machine (zero: a
	// seed whose machine isn't known yet). Optional.
	Filter func(to crdt.MachineID) bool

	host addresses // tests only
}

// Timing holds the intervals of membership.
type Timing struct {
	Probe          time.Duration // between two probes of a peer's own
	ProbeTimeout   time.Duration // wait for a direct answer
	SuspicionMult  int           // suspicion lasts this x log10(n) probes, if others confirm it
	Gossip         time.Duration // between two rounds of gossip
	PushPull       time.Duration // between two exchanges of the whole state
	Stream         time.Duration // limit of one exchange over TCP
	RejoinMin      time.Duration // first wait before the next attempt to join
	RejoinMax      time.Duration // longest wait
	AddressRecheck time.Duration // between two looks at the own address
	Broadcast      time.Duration // limit of telling the others about oneself
	LeaveDelay     time.Duration // how long a leaver stays to see its goodbye spread
}

// LAN returns the intervals for machines some milliseconds apart: a dead machine is
// found within about five seconds in a small cluster.
func LAN() Timing {
	return Timing{
		Probe: time.Second, ProbeTimeout: 500 * time.Millisecond, SuspicionMult: 4,
		Gossip: 200 * time.Millisecond, PushPull: 30 * time.Second, Stream: 10 * time.Second,
		RejoinMin: 500 * time.Millisecond, RejoinMax: 5 * time.Second,
		AddressRecheck: 10 * time.Second, Broadcast: 2 * time.Second, LeaveDelay: time.Second,
	}
}

func (c *MembershipConfig) validate() error {
	switch {
	case c.Cluster == "" || len(c.Cluster) > 64:
		return errors.New("configure membership: the cluster's label must have 1 to 64 bytes")
	case len(c.Keys) == 0:
		return errors.New("configure membership: a gossip key is required")
	case c.Self.ID.IsZero():
		return errors.New("configure membership: the machine's ID is required")
	case c.Self.Name == "" || len(c.Self.Name) > maxNameBytes:
		return fmt.Errorf("configure membership: the machine's name must have 1 to %d bytes", maxNameBytes)
	case len(c.Self.Version) > maxVersionBytes:
		return fmt.Errorf("configure membership: the version must have at most %d bytes", maxVersionBytes)
	case c.Self.StreamPort == 0:
		return errors.New("configure membership: the port of streams is required")
	case c.Log == nil:
		return errors.New("configure membership: a logger is required")
	}
	return nil
}

// Membership is the task that knows which machines are there. It carries no data.
type Membership struct {
	cfg      MembershipConfig
	table    *table
	keyring  *memberlist.Keyring
	addr     *advertised
	readdr   chan struct{} // room for one: "look at the own address again"
	ready    chan struct{} // closed once the sockets are open
	finished chan struct{} // closed when Run returns
	traffic  traffic

	tagging sync.Mutex // serf wants one SetTags at a time; taken before mu

	mu    sync.Mutex
	self  Self
	port  uint16     // the bound port; set before ready is closed
	serf  *serf.Serf // set before ready is closed
	where netip.AddrPort
}

// NewMembership checks the configuration. Nothing starts before Run.
func NewMembership(cfg MembershipConfig) (*Membership, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = LAN()
	}
	cfg.Bind = bindOrDefault(cfg.Bind, DefaultGossipPort)
	if cfg.host == nil {
		cfg.host = hostAddresses{}
	}
	keyring, err := memberlist.NewKeyring(cfg.Keys, cfg.Keys[0])
	if err != nil {
		return nil, fmt.Errorf("configure membership: use the gossip keys: %w", err)
	}
	return &Membership{
		cfg:      cfg,
		table:    newTable(cfg.Self.ID, cfg.Known, time.Now),
		keyring:  keyring,
		addr:     newAdvertised(cfg.Advertise, cfg.Bind.Addr(), cfg.host),
		readdr:   make(chan struct{}, 1),
		ready:    make(chan struct{}),
		finished: make(chan struct{}),
		self:     cfg.Self,
	}, nil
}

// String names the task.
func (m *Membership) String() string { return "membership" }

// Ready is closed once the sockets are open.
func (m *Membership) Ready() <-chan struct{} { return m.ready }

// Members returns every other machine heard of since the start, sorted by ID.
func (m *Membership) Members() []Member { return m.table.list() }

// Member returns one machine, if it was heard of since the start.
func (m *Membership) Member(id crdt.MachineID) (Member, bool) { return m.table.member(id) }

// Known returns the peer table, sorted by ID.
func (m *Membership) Known() []Known { return m.table.rows() }

// StreamAddrs returns where a machine's streams were last known to be reached. It has
// the shape of [TransportConfig].Lookup.
func (m *Membership) StreamAddrs(id crdt.MachineID) []string {
	k, ok := m.table.where(id)
	if !ok || k.StreamPort == 0 {
		return nil
	}
	return []string{netip.AddrPortFrom(k.Addr.Addr(), k.StreamPort).String()}
}

// Addr returns the advertised address and gossip port; not valid before Ready.
func (m *Membership) Addr() netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.where
}

// BytesSent is the total above UDP and TCP since the start. What was sent to this machine
// is counted by those who sent it.
func (m *Membership) BytesSent() uint64 { return m.traffic.out.Load() }

// Run opens the sockets, joins the cluster and stays a member until ctx ends. It then
// stops without a goodbye: to the others this machine is silent, as after a crash. Call
// [Membership.Leave] before to say goodbye. Run is called once.
func (m *Membership) Run(ctx context.Context) error {
	defer close(m.finished)
	if _, err := m.addr.choose(m.targets(ctx)); err != nil {
		return err
	}
	nt, err := m.listen()
	if err != nil {
		return err
	}
	net := newPacketNet(nt, m.self.ID, m.table, &m.traffic)
	net.filter, net.reached = m.cfg.Filter, m.reached
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { net.watchStreams(); return nil })
	events := make(chan serf.Event, eventQueue)
	s, err := serf.Create(m.serfConfig(net, events))
	if err != nil {
		net.Shutdown()
		g.Wait()
		return fmt.Errorf("start membership on port %d: %w", m.port, err)
	}
	m.mu.Lock()
	m.serf = s
	m.mu.Unlock()
	close(m.ready)
	stopped := make(chan struct{})
	g.Go(func() error { m.consume(events, stopped); return nil })
	g.Go(func() error { return m.notify(ctx) })
	g.Go(func() error { return m.rejoin(ctx, s) })
	g.Go(func() error { return m.followAddress(ctx, s) })
	g.Go(func() error {
		<-ctx.Done()
		defer close(stopped)
		return s.Shutdown()
	})
	return g.Wait()
}

func (m *Membership) listen() (*memberlist.NetTransport, error) {
	bind := m.cfg.Bind
	nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{bind.Addr().String()},
		BindPort:  int(bind.Port()),
		Logger:    debugLogger(m.cfg.Log),
	})
	if err != nil {
		return nil, fmt.Errorf("listen for gossip on %s: %w; is another peer running on this machine?", bind, err)
	}
	m.port = uint16(nt.GetAutoBindPort())
	m.mu.Lock()
	m.where = netip.AddrPortFrom(m.addr.current(), m.port)
	m.mu.Unlock()
	return nt, nil
}

func (m *Membership) serfConfig(net memberlist.Transport, events chan<- serf.Event) *serf.Config {
	t := m.cfg.Timing
	ml := memberlist.DefaultLANConfig()
	ml.Transport = net
	ml.Label = m.cfg.Cluster
	ml.Keyring = m.keyring
	ml.BindPort = DefaultGossipPort // the port of seeds that name none
	ml.ProbeInterval, ml.ProbeTimeout = t.Probe, t.ProbeTimeout
	ml.SuspicionMult = t.SuspicionMult
	ml.GossipInterval, ml.PushPullInterval, ml.TCPTimeout = t.Gossip, t.PushPull, t.Stream
	// Messages are small; compressing each costs more time and memory than it saves.
	ml.EnableCompression = false
	ml.Logger = debugLogger(m.cfg.Log)

	c := serf.DefaultConfig()
	c.NodeName = m.self.ID.String()
	c.Tags = m.self.tags(m.where)
	c.EventCh = events
	c.MemberlistConfig = ml
	c.Logger = ml.Logger
	c.Merge = admission{m}
	c.BroadcastTimeout, c.LeavePropagateDelay = t.Broadcast, t.LeaveDelay
	// The names are key hashes: two machines with one name are one machine that moved,
	// or a copied disk, which its peer finds out by itself.
	c.EnableNameConflictResolution = false
	c.DisableCoordinates = true
	// A silent machine's record is kept, and joining it again is this package's task.
	c.ReconnectTimeout = 100 * 365 * 24 * time.Hour
	c.ReconnectInterval = c.ReconnectTimeout
	return c
}

// admission keeps removed machines out, and learns the addresses of new ones.
type admission struct{ m *Membership }

// NotifyMerge is asked for each machine that shows up, and for whole lists when states
// are exchanged. A list is never refused for one machine in it: the sender may not have
// heard of the removal.
func (a admission) NotifyMerge(list []*serf.Member) error {
	for _, sm := range list {
		member, err := parseMember(sm.Name, sm.Tags)
		switch {
		case err != nil && len(list) == 1:
			return err
		case err != nil:
			continue
		case a.m.removed(member.ID) && len(list) == 1:
			return fmt.Errorf("refuse %s: it was removed from the cluster", member.ID)
		}
		if sm.Status != serf.StatusLeft {
			a.m.table.learn(member)
		}
	}
	return nil
}

func (m *Membership) removed(id crdt.MachineID) bool {
	// What it means for this machine to be removed is not for gossip to say.
	return id != m.cfg.Self.ID && m.cfg.Removed != nil && m.cfg.Removed(id)
}
