package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack/wireguard"
)

// buildTunnels makes the machine's WireGuard device, which is off until the machine's
// lifecycle says otherwise.
func (d *Daemon) buildTunnels(context.Context) error {
	if w := d.cfg.WireGuard; w != nil && *w != d.home.facts.WireGuard {
		d.home.facts.WireGuard = *w
		if err := d.home.save(); err != nil {
			return err
		}
	}
	private, err := d.home.tunnelKey()
	if err != nil {
		return err
	}
	d.tunnels, err = wireguard.New(wireguard.Config{Private: private, Underlay: d.network.Underlay, Log: d.cfg.Logger.With("part", "wireguard")})
	if err != nil {
		return err
	}
	d.add(d.tunnels)
	return nil
}

// tunnelKey reads the device's private key, or makes it.
func (h *home) tunnelKey() (key wireguard.Key, err error) {
	raw, err := h.store.Get(keyTunnels)
	if err != nil {
		return key, err
	}
	if len(raw) == len(key) {
		return wireguard.Key(raw), nil
	}
	if key, err = wireguard.NewKey(rand.Reader); err != nil {
		return key, err
	}
	return key, h.store.Commit(crdt.Commit{Local: []crdt.LocalWrite{{Key: keyTunnels, Value: key[:]}}})
}

// tunnels is the device as the machine's lifecycle sees it.
type tunnels struct {
	device *wireguard.Device
	told   bool // what the peer was told at its start
	lan    bool // pods have addresses of the LAN, which no tunnel leads to
}

// Ensure implements loops.Tunnels.
func (t tunnels) Ensure(_ context.Context, on *bool) (end loops.TunnelEnd, err error) {
	wanted := t.told
	if on != nil {
		wanted = *on
	}
	if wanted && t.lan {
		return end, errors.New("the pods of this cluster have addresses of the LAN, which tunnels don't carry; switch it off with `peer machine wireguard NAME off`")
	}
	facts, err := t.device.Ensure(wanted)
	if err != nil || !wanted {
		return end, err
	}
	return loops.TunnelEnd{Key: facts.Public.String(), Port: facts.Port, Device: facts.Kind, MTU: facts.MTU}, nil
}

// Routes makes the machines that are reached by tunnels the device's peers, and routes to
// all.
func (n podNetwork) Routes(ctx context.Context, plan loops.RoutePlan) error {
	var peers []wireguard.Peer
	var errs []error
	for _, t := range plan.Tunnels {
		key, err := wireguard.ParseKey(t.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("key of %s: %w", t.Machine, err))
			continue
		}
		peers = append(peers, wireguard.Peer{
			Machine: t.Machine, Public: key, Endpoint: netip.AddrPortFrom(t.Address, t.Port), Prefixes: t.Prefixes,
		})
	}
	return errors.Join(errors.Join(errs...), n.tunnels.SetPeers(peers), n.Network.Routes(ctx, plan))
}

// Tunnels tells how the machine's tunnels are.
func (n serverNetwork) Tunnels(context.Context) (*apiv1.TunnelsResponse, error) {
	list, err := n.d.tunnels.Tunnels()
	if err != nil {
		return nil, err
	}
	out := &apiv1.TunnelsResponse{}
	if facts, on := n.d.tunnels.Facts(); on {
		out.Port, out.Device = uint32(facts.Port), facts.Kind
	}
	now := time.Now()
	for _, t := range list {
		out.Tunnels = append(out.Tunnels, &apiv1.Tunnel{
			Machine: t.Machine, Endpoint: t.Seen.String(), Works: t.Works(now), Heard: t.Heard(now),
			HeardMsAgo: msAgo(t.Last, now), HandshakeMsAgo: msAgo(t.Handshake, now), Sent: t.Sent, Received: t.Received,
		})
	}
	return out, nil
}

func msAgo(t, now time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return now.Sub(t).Milliseconds()
}

// tunnelState prints the device and its tunnels, one line per thing.
func (n serverNetwork) tunnelState() (string, error) {
	facts, on := n.d.tunnels.Facts()
	if !on {
		return "", nil
	}
	list, err := n.d.tunnels.Tunnels()
	var b strings.Builder
	fmt.Fprintf(&b, "wireguard (%s) port %d mtu %d key %s\n", facts.Kind, facts.Port, facts.MTU, facts.Public)
	now := time.Now()
	for _, t := range list {
		word := "works"
		if !t.Works(now) {
			word = "fails"
		}
		fmt.Fprintf(&b, "  tunnel to %s at %s %s, heard %s, handshake %s, sent %d received %d\n",
			t.Machine, t.Seen, word, ago(t.Last, now), ago(t.Handshake, now), t.Sent, t.Received)
	}
	return b.String(), err
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}
