package daemon

import (
	"context"
	"path/filepath"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/dns"
)

// buildNames makes the server that answers this machine's pods for names.
func (d *Daemon) buildNames(context.Context) error {
	own := netstack.MachineAddress(d.facts.own)
	server, err := dns.New(dns.Config{
		Address: own, Cluster: d.facts.cluster, NAT64: clat.DefaultPrefix, Directory: d.follower.directory,
		Upstream:   dns.NewForwarder(own, append([]string{filepath.Join(d.cfg.Data, resolvers)}, dns.MachineFiles()...)...).Ask,
		Translated: func(mode string) bool { return mode == api.IPv4CLAT },
		Log:        d.cfg.Logger.With("part", "names"),
	})
	if err != nil {
		return err
	}
	d.add(named(server.String(), func(ctx context.Context) error { return d.serveNames(ctx, server) }))
	return nil
}

// resolvers, in the data directory, stands for the machine's own resolv.conf if it exists.
const resolvers = "resolv.conf"

// namesAgain is how soon a port that another program has is tried again.
const namesAgain = 5 * time.Second

// serveNames answers until the context ends. A machine whose port is taken runs its pods
// without names and says so.
func (d *Daemon) serveNames(ctx context.Context, server *dns.Server) error {
	for {
		err := server.Run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		d.cfg.Logger.Warn("pods of this machine get no answers for names; find what else listens with `ss -lnp 'sport = :53'`",
			"error", err, "again", namesAgain)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(namesAgain):
		}
	}
}
