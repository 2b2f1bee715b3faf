package linux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"starling.dev/starling/netstack"
)

// DefaultNamespaces is where named network namespaces are bound, as ip(8) does it.
const DefaultNamespaces = "/run/netns"

// Mode is how pods get their addresses, and how others find them.
type Mode string

// The modes of this package.
const (
	// Routed: addresses of the machine's /96, which the other machines route.
	Routed Mode = "routed"
	// Lan: addresses of the LAN's own /64; the machine answers neighbour discovery.
	Lan Mode = "lan"
	// Cloud: addresses that a foreign loop allocates from what the cloud delegates to the
	// machine. The other machines route each of them.
	Cloud Mode = "cloud"
)

// DefaultIPv4 is the range that the pods of every machine share behind masquerading.
var DefaultIPv4 = netip.MustParsePrefix("10.63.0.0/16")

// Config says how a machine takes part in the network.
type Config struct {
	// Mode is how pods get their addresses; Routed if empty.
	Mode Mode
	// Cluster is the cluster's /48, Own this machine's /96 of it. Required. In mode lan
	// pods have addresses of the LAN instead (see LANPrefix), and the machine alone has one
	// of its /96.
	Cluster, Own netip.Prefix
	// Scope tells apart the peers that share a mount namespace. Required; letters,
	// digits, '-' and '_'.
	Scope string
	// Namespaces is the directory of named network namespaces; DefaultNamespaces if
	// empty.
	Namespaces string
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Uplink is the link to the cluster; found by itself if empty.
	Uplink string
	// IPv4 is the pods' range behind this machine; DefaultIPv4 if zero.
	IPv4 netip.Prefix
	// Duplicate, if set, is told of an address of a pod here that another machine
	// answers for, in mode lan. It must not block.
	Duplicate func(a netip.Addr, mac netstack.MAC)
	// Repair, if set, is called when something was changed in the machine's network: it
	// puts back what others keep beside the Network, and writes only what differs.
	Repair func() error
	// Again, if set, is called when a link that a pod's interface attaches to came or went, so
	// that Attach has another result than it had.
	Again func(ctx context.Context, podID string)
	// Log is required.
	Log *slog.Logger
}

func (c Config) validate() error {
	if err := c.validatePrefixes(); err != nil {
		return err
	}
	switch {
	case c.Log == nil:
		return errors.New("no logger")
	case !c.IPv4.Addr().Is4() || c.IPv4.Bits() > 22:
		return fmt.Errorf("IPv4 range of pods %s: it must be an IPv4 /22 or larger", c.IPv4)
	}
	return netstack.CheckName("scope", c.Scope)
}

func (c Config) validatePrefixes() error {
	switch {
	case c.Mode != Routed && c.Mode != Lan && c.Mode != Cloud:
		return fmt.Errorf("mode %q: use %s, %s or %s", c.Mode, Routed, Lan, Cloud)
	case c.Cluster.Bits() != netstack.ClusterBits || !c.Cluster.Addr().Is6():
		return fmt.Errorf("cluster prefix %s: it must be an IPv6 /%d", c.Cluster, netstack.ClusterBits)
	case c.Own.Bits() != netstack.MachineBits || !c.Cluster.Contains(c.Own.Addr()):
		return fmt.Errorf("machine prefix %s: it must be a /%d of the cluster's %s", c.Own, netstack.MachineBits, c.Cluster)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Mode == "" {
		c.Mode = Routed
	}
	if c.Namespaces == "" {
		c.Namespaces = DefaultNamespaces
	}
	if !c.IPv4.IsValid() {
		c.IPv4 = DefaultIPv4
	}
	return c
}
