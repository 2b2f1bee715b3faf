package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/wireguard"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
	"starling.dev/starling/server"
	"starling.dev/starling/store"
)

// Task is one goroutine of a peer. Constructors start nothing; Run blocks until its
// context ends.
type Task interface {
	Run(ctx context.Context) error
	String() string
}

// Daemon is one peer, built but not running.
type Daemon struct {
	cfg        Config
	home       *home
	verifier   *peer.Verifier
	loop       *peer.Loop
	membership *gossip.Membership
	transport  *gossip.Transport
	network    *linux.Network
	translator *clat.Device
	tunnels    *wireguard.Device
	follower   *follower
	// untranslated is why this machine has no NAT64; nil while it has one.
	untranslated atomic.Pointer[error]
	runtime      *oci.Runtime
	leases       *oci.Leases
	facts        *facts
	programs     *server.Programs
	// swept: the machine was looked over in this life of the program.
	swept atomic.Bool
	tasks []Task
}

// Open opens the data directory and builds the peer. A new directory begins a cluster.
func Open(ctx context.Context, cfg Config) (*Daemon, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h, member, err := openHome(cfg)
	if err != nil {
		return nil, storeError(cfg, err)
	}
	if !member {
		if err := h.found(); err != nil {
			return nil, errors.Join(err, h.store.Close())
		}
		cfg.Logger.Info("a new cluster begins here", "cluster", h.log.Cluster(), "machine", cfg.Name)
	}
	d := &Daemon{cfg: cfg, home: h, verifier: peer.NewVerifier(crdt.VerifyEd25519), programs: server.NewPrograms()}
	err = d.build(ctx)
	if why, removed := removal(err); removed {
		err = retired(why, d.retireUnopened(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, h.store.Close())
	}
	return d, nil
}

func (d *Daemon) build(ctx context.Context) error {
	d.verifier.Update(d.home.log.Snapshot())
	name, err := d.home.name()
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{
		d.buildTranslator, d.buildNetwork, d.buildTunnels, d.buildFollower, d.buildSites, d.buildNames, d.buildRuntime, d.buildLoop,
		func(context.Context) error { return d.buildGossip(name) },
		d.buildServer,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *Daemon) buildNetwork(context.Context) (err error) {
	cluster, id := d.home.log.Cluster(), d.home.id()
	prefix := netstack.ClusterPrefix(cluster[:])
	d.facts = &facts{cfg: d.cfg, cluster: prefix, own: netstack.MachinePrefix(prefix, id[:])}
	d.network, err = linux.New(linux.Config{
		Mode: linux.Mode(d.home.log.Genesis().Network), Cluster: prefix, Own: d.facts.own, Scope: d.cfg.Namespace, Repair: d.repairNetwork, Again: d.lookAtNetwork, Log: d.cfg.Logger.With("part", "network"),
	})
	if err != nil {
		return fmt.Errorf("prepare the machine's network: %w", err)
	}
	d.facts.delegated = linux.Mode(d.home.log.Genesis().Network) == linux.Cloud
	if d.isLAN() {
		d.facts.lan = d.network.LANPrefix
	}
	if a := d.firstAddress(); a.IsValid() {
		d.facts.address.Store(&a)
	}
	return nil
}

// isLAN: the cluster's pods have addresses of their LAN.
func (d *Daemon) isLAN() bool { return linux.Mode(d.home.log.Genesis().Network) == linux.Lan }

func (d *Daemon) buildLoop(context.Context) (err error) {
	h := &host{
		images: d.runtime.Images(), containers: d.runtime.Containers(), tunnels: tunnels{d.tunnels, d.home.facts.WireGuard, d.isLAN()},
		network: podNetwork{d.network, d.translator, &d.untranslated, d.tunnels, d.follower.guard, d.follower.admitPorts, d.follower.relead},
		volumes: &volumes{dir: d.cfg.Data + "/volumes"}, facts: d.facts, leases: d.leases, programs: foreign{d.programs},
	}
	o := &opener{home: d.home, verifier: d.verifier, swept: &d.swept}
	d.loop, err = peer.NewLoop(peer.LoopConfig{
		Open: o.open, Transport: lazyTransport{d}, Host: h, Verifier: d.verifier, Logger: d.cfg.Logger.With("part", "core"),
		Boot: oci.BootTime, Now: d.cfg.now,
	})
	d.add(d.loop, named("volumes", h.volumes.Run), named("exits", d.watchExits), named("network repair", d.network.Run), named("sweep", d.sweep), named("images", d.collectImages), d.prober(), &scrubber{d.cfg.Logger.With("part", "store"), d.store}, trimmer{})
	return err
}

// store is the store that the loop writes to now: it may be opened anew at any time.
func (d *Daemon) store(ctx context.Context) (s *store.Store, err error) {
	err = d.loop.Query(ctx, func(*peer.Core) { s = d.home.store })
	return s, err
}

func (d *Daemon) add(tasks ...Task) { d.tasks = append(d.tasks, tasks...) }

// Run runs every task until the context ends, one of them fails, or the machine is removed
// from the cluster, which ends its pods.
func (d *Daemon) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	for _, t := range d.tasks {
		group.Go(func() error {
			if err := t.Run(running); err != nil && running.Err() == nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if why, removed := removal(err); removed {
		err = retired(why, d.retire(ctx))
	}
	return errors.Join(err, d.runtime.Close(), d.follower.close(), d.network.Close(), d.home.store.Close())
}

// lazyTransport lets the loop be built before the transport that feeds it.
type lazyTransport struct{ d *Daemon }

func (l lazyTransport) Send(to crdt.MachineID, frame []byte) error {
	return l.d.transport.Send(to, frame)
}

// task is a function with a name.
type task struct {
	name string
	run  func(context.Context) error
}

func named(name string, run func(context.Context) error) Task { return task{name, run} }

func (t task) Run(ctx context.Context) error { return t.run(ctx) }
func (t task) String() string                { return t.name }

// serverConfig is what the API server needs of this peer.
func (d *Daemon) serverConfig() server.Config {
	return server.Config{
		Loop: d.loop, Runtime: serverRuntime{d.runtime, d.neededImages}, Network: serverNetwork{d}, Members: d.transport,
		Key: d.home.key, Addresses: d.joinAddresses, Logger: d.cfg.Logger.With("part", "api"), Programs: d.programs,
	}
}

func (d *Daemon) joinAddresses() []string {
	var list []string
	if a := d.membership.Addr(); a.IsValid() {
		list = append(list, netip.AddrPortFrom(a.Addr(), d.cfg.StreamPort).String())
	}
	if a := d.facts.address.Load(); a != nil {
		if s := netip.AddrPortFrom(*a, d.cfg.StreamPort).String(); len(list) == 0 || list[0] != s {
			list = append(list, s)
		}
	}
	return list
}
