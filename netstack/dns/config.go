package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack/service"
)

// Directory is what names stand for. Its methods may be called concurrently; package
// service has one.
type Directory interface {
	// Synced: what is not found does not exist.
	Synced() bool
	Pod(k service.Key) (service.Pod, bool)
	Service(k service.Key) (service.Service, bool)
	Machine(name string) (service.Machine, bool)
	Owner(a netip.Addr) (service.Owner, bool)
}

// Upstream asks a resolver and returns its answer. It does not keep or change the query.
type Upstream func(ctx context.Context, query *dns.Msg) (*dns.Msg, error)

// Config says what a server answers, and to whom. All but Machine and Port are required.
type Config struct {
	// Machine is the path of the network namespace to listen in; the process's own if
	// empty.
	Machine string
	// Address is the machine's own in the cluster, and Port is 53 if 0. The address need
	// not be there yet.
	Address netip.Addr
	Port    uint16
	// Cluster is the cluster's prefix: who is answered, and whose reverse names are ours.
	Cluster netip.Prefix
	// NAT64 is the prefix under which translated pods reach IPv4.
	NAT64     netip.Prefix
	Directory Directory
	// Upstream answers for all other names.
	Upstream Upstream
	// Translated reports whether a pod reaches IPv4 by translation, by the IPv4 mode in
	// its spec.
	Translated func(mode string) bool
	Log        *slog.Logger
}

func (c Config) validate() error {
	switch {
	case !c.Address.Is6():
		return fmt.Errorf("address %v: it must be an IPv6 address", c.Address)
	case !c.Cluster.IsValid():
		return errors.New("the cluster's prefix is missing")
	case c.Directory == nil || c.Upstream == nil || c.Translated == nil || c.Log == nil:
		return errors.New("Directory, Upstream, Translated and Log are required")
	}
	return nil
}
