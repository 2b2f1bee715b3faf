package clat

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"starling.dev/starling/netstack"
)

// Names of our links, and the MTU of everything that is not told otherwise.
const (
	PodLink     = "clat"
	defaultLink = netstack.TranslatorLink
	defaultMTU  = 1500
	minMTU      = 1280 // RFC 8200
	maxMTU      = 65535 - fragmentHeader
	// shrink is how much smaller a packet is in IPv4.
	shrink = 20
)

var (
	// DefaultPrefix is where pods find the IPv4 internet (RFC 8215).
	DefaultPrefix = netip.MustParsePrefix("64:ff9b:1::/96")
	// DefaultIPv4 is the range that pods have behind this machine. It is masqueraded,
	// so every machine may use the same one.
	DefaultIPv4 = netip.MustParsePrefix("10.62.0.0/16")
	// PodAddress is the IPv4 address that every pod sees as its own (RFC 7335).
	PodAddress = netip.MustParseAddr("192.0.0.2")

	// podTranslator is the sender of ICMP errors that a pod's CLAT makes (RFC 7600).
	podTranslator = netip.MustParseAddr("192.0.0.8")
	// between is the prefix of the addresses that pods have between the two
	// translations. They are never on any link.
	between = netip.MustParsePrefix("64:ff9b:1:1::/96")
)

// Config says how a machine gives its pods a way to the IPv4 internet.
type Config struct {
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Link is the name of the machine's TUN link; "slnat64" if empty.
	Link string
	// Prefix is the NAT64 prefix, a /96 (RFC 6052); DefaultPrefix if zero.
	Prefix netip.Prefix
	// IPv4 is the pods' range behind this machine, at least a /20; DefaultIPv4 if zero.
	IPv4 netip.Prefix
	// MTU is the one of pods' links; 1,500 if 0.
	MTU int
	// TUNOnly leaves the fast path out. Clsact hooks it as on kernels without tcx.
	TUNOnly, Clsact bool
	// Log is required.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Link == "" {
		c.Link = defaultLink
	}
	if !c.Prefix.IsValid() {
		c.Prefix = DefaultPrefix
	}
	if !c.IPv4.IsValid() {
		c.IPv4 = DefaultIPv4
	}
	if c.MTU == 0 {
		c.MTU = defaultMTU
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Log == nil:
		return errors.New("no logger")
	case c.Prefix.Bits() != 96 || !c.Prefix.Addr().Is6():
		return fmt.Errorf("NAT64 prefix %v: it must be an IPv6 /96", c.Prefix)
	case c.Prefix.Overlaps(between):
		return fmt.Errorf("NAT64 prefix %v: %v is used inside the translator; choose another", c.Prefix, between)
	case c.Prefix.Overlaps(netstack.StandInPrefix):
		return fmt.Errorf("NAT64 prefix %v: %v stands for load balancers; choose another", c.Prefix, netstack.StandInPrefix)
	case !c.IPv4.Addr().Is4() || c.IPv4.Bits() > 20:
		return fmt.Errorf("IPv4 range of pods %v: it must be an IPv4 /20 or larger", c.IPv4)
	case c.MTU < minMTU || c.MTU > maxMTU:
		return fmt.Errorf("MTU %d: it must be between %d and %d", c.MTU, minMTU, maxMTU)
	}
	return nil
}

// The range's quarters: the first is for pods that use IPv6 themselves, the second for what
// is only led to. The upper half is for pods behind their CLATs: for each the same place as
// in the lower one.
func (c Config) natives() netip.Prefix {
	return netip.PrefixFrom(c.IPv4.Masked().Addr(), c.IPv4.Bits()+2)
}

func (c Config) leads() netip.Prefix {
	b := c.IPv4.Masked().Addr().As4()
	b[(c.IPv4.Bits()+1)/8] |= 1 << (7 - (c.IPv4.Bits()+1)%8)
	return netip.PrefixFrom(netip.AddrFrom4(b), c.IPv4.Bits()+2)
}

// own is the machine's address in the range; PickIPv4 leaves it to us.
func (c Config) own() netip.Addr { return c.IPv4.Masked().Addr().Next() }

// translator is the NAT64's own address, from which it sends ICMP errors. It is not the
// machine's: the kernel takes no packet that comes in from an address of its own.
func (c Config) translator() netip.Addr { return c.own().Next() }

// Pod is a pod to be served.
type Pod struct {
	ID      string
	Space   string     // path of its network namespace
	Address netip.Addr // its one IPv6 address
}

func (p Pod) validate() error {
	if err := netstack.CheckName("pod", p.ID); err != nil {
		return err
	}
	if !p.Address.Is6() || p.Address.Is4In6() {
		return fmt.Errorf("pod %s: address %v: it must be an IPv6 address", p.ID, p.Address)
	}
	return nil
}
