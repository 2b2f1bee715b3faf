package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux/hostports"
	"starling.dev/starling/netstack/linux/policies"
	"starling.dev/starling/netstack/linux/services"
	"starling.dev/starling/netstack/service"
	"starling.dev/starling/peer"
)

// buildFollower makes what follows the state.
func (d *Daemon) buildFollower(context.Context) error {
	kinds, err := peer.Kinds()
	if err != nil {
		return err
	}
	name, err := d.home.name()
	if err != nil {
		return err
	}
	table, err := d.serviceTable()
	if err != nil {
		return err
	}
	rules, err := policies.New(policies.Config{Cluster: d.facts.cluster})
	if err != nil {
		return err
	}
	ports, err := hostports.New(d.portsConfig())
	if err != nil {
		return err
	}
	d.follower = &follower{
		log: d.cfg.Logger.With("part", "services"), graph: kinds["Pod"].Graph, self: name, cluster: d.facts.cluster,
		query:     func(ctx context.Context, do func(*peer.Core)) error { return d.loop.Query(ctx, do) },
		turned:    func() <-chan struct{} { return d.loop.Turned() },
		directory: service.NewDirectory(), table: table, policies: rules, ports: ports, podIPv4: d.podIPv4, leadIPv4: d.leadIPv4, listening: d.setListening, nudged: make(chan struct{}, 1),
		begun: beginning{at: time.Now(), heard: map[crdt.MachineID]bool{}},
		left:  map[netip.Addr]time.Time{}, draining: map[string]time.Time{},
		host: hostPorts{pods: map[api.Key]*lifecycle.Object{}},
	}
	b := &d.follower.balancer
	b.holder = d.network.NewHolder()
	probe := func(ctx context.Context, id crdt.MachineID) error { return d.membership.Probe(ctx, id) }
	b.watch = gossip.NewWatcher(probe, d.follower.nudge)
	d.add(d.follower, b.holder, b.watch)
	return nil
}

func (d *Daemon) serviceTable() (*services.Table, error) {
	return services.New(services.Config{Prefix: netstack.ServicePrefix(d.facts.cluster), Source: netstack.MachineAddress(d.facts.own)})
}

func (d *Daemon) portsConfig() hostports.Config {
	return hostports.Config{Cluster: d.facts.cluster, Source: netstack.MachineAddress(d.facts.own)}
}

// purgeServices removes the machine's tables of services, policies and host ports.
func (d *Daemon) purgeServices() error {
	table, err := d.serviceTable()
	if err != nil {
		return err
	}
	rules, err := policies.New(policies.Config{Cluster: d.facts.cluster})
	if err != nil {
		return errors.Join(err, table.Close())
	}
	ports, err := hostports.New(d.portsConfig())
	if err != nil {
		return errors.Join(err, table.Close(), rules.Close())
	}
	return errors.Join(table.Purge(), rules.Purge(), ports.Purge(), table.Close(), rules.Close(), ports.Close())
}

// state prints what the machine does for services and policies, one line per thing.
func (f *follower) state() string {
	var b strings.Builder
	for _, s := range f.directory.Services() {
		for _, forward := range s.Forwards() {
			fmt.Fprintf(&b, "service %s\n  %s\n", s.Key, forward)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b.WriteString(f.balancer.state() + f.sitesState())
	if lines := f.host.entrances.String(); lines != "" {
		b.WriteString("entrances\n")
		for line := range strings.Lines(lines) {
			b.WriteString("  " + line)
		}
	}
	plan := f.planLocked().String()
	if plan != "" {
		b.WriteString("policies\n")
	}
	for line := range strings.Lines(plan) {
		b.WriteString("  " + line)
	}
	return b.String()
}
