package wireguard

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"starling.dev/starling/netstack"
)

// DefaultPort is WireGuard's usual one (UDP).
const DefaultPort = 51820

// Sizes, in bytes. A packet in a tunnel grows by the headers of WireGuard (32), UDP (8)
// and IPv6 (40), of which an IPv4 header would be half.
const (
	overhead     = 80
	minMTU       = 1280 // RFC 8200
	underlayGood = minMTU + overhead
)

// keepalive is how often an idle tunnel is used, so that NATs don't forget it and both
// ends know that it works. A tunnel that hears nothing for silence does not.
const (
	keepalive = 25 * time.Second
	silence   = 65 * time.Second
	// sampling is how often it is noted which peers were heard.
	sampling = 5 * time.Second
)

// Key is a public or private key.
type Key = wgtypes.Key

// NewKey makes a private key from random bytes.
func NewKey(random io.Reader) (Key, error) {
	var b [wgtypes.KeyLen]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return Key{}, fmt.Errorf("draw a WireGuard key: %w", err)
	}
	b[0], b[31] = b[0]&248, b[31]&127|64 // RFC 7748, section 5
	return Key(b), nil
}

// ParseKey reads a key as people write it, in base64.
func ParseKey(s string) (Key, error) { return wgtypes.ParseKey(s) }

// Config says how a machine's device is made.
type Config struct {
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Link is the device's name; netstack.TunnelLink if empty.
	Link string
	// Port is the UDP port that it listens on; DefaultPort if 0.
	Port uint16
	// Private is the machine's private key. Required.
	Private Key
	// Underlay returns the MTU of the links that the tunnels go over. Required.
	Underlay func() (int, error)
	// InProcess leaves the kernel's WireGuard out.
	InProcess bool
	// Log is required.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Link == "" {
		c.Link = netstack.TunnelLink
	}
	if c.Port == 0 {
		c.Port = DefaultPort
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Private == Key{}:
		return errors.New("no private key")
	case c.Underlay == nil:
		return errors.New("no source of the underlay's MTU")
	case c.Log == nil:
		return errors.New("no logger")
	}
	return nil
}

// Facts are what others must know of a machine's device.
type Facts struct {
	Public Key
	Port   uint16
	// Kind is "kernel" or "process".
	Kind string
	MTU  int
}

// Peer is another machine.
type Peer struct {
	Machine  string
	Public   Key
	Endpoint netip.AddrPort // where the machine says that it is
	Prefixes []netip.Prefix // that are behind it
}

// Tunnel is how the way to a peer is, as this end sees it.
type Tunnel struct {
	Peer
	Seen           netip.AddrPort // where its packets come from, or would be sent to
	Since          time.Time      // known to the device
	Handshake      time.Time      // the last one; zero: never
	Last           time.Time      // when the last packet came, within some seconds; zero: never
	Sent, Received uint64         // bytes
}

// Heard reports whether anything of the peer came lately.
func (t Tunnel) Heard(now time.Time) bool { return !t.Last.IsZero() && now.Sub(t.Last) < silence }

// Works reports whether the tunnel does, as far as this end can tell: the peer is heard,
// and has heard this end lately enough to agree on keys.
func (t Tunnel) Works(now time.Time) bool {
	return t.Heard(now) && !t.Handshake.IsZero() && now.Sub(t.Handshake) < expiry+keepalive
}
