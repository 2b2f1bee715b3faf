package loops

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Tunneler is a host that can have a WireGuard device.
type Tunneler interface{ Tunnels() Tunnels }

// Tunnels is the machine's WireGuard device.
type Tunnels interface {
	// Ensure makes the device be there or not, and returns what others must know of it;
	// the zero TunnelEnd if it is not. on is nil where nobody says: then it is as the peer
	// was told at its start. Idempotent.
	Ensure(ctx context.Context, on *bool) (TunnelEnd, error)
}

// TunnelEnd is one end of tunnels.
type TunnelEnd struct {
	Key    string // the public one, in base64
	Port   uint16
	Device string // kernel | process
	MTU    int
}

// TunnelPeer is another machine, with what is behind it.
type TunnelPeer struct {
	Machine  string
	Address  netip.Addr // on the LAN
	Prefixes []netip.Prefix
	TunnelEnd
}

// WireGuard keeps the machine's WireGuard device. A machine is ready once it has it; how
// each tunnel is gates nothing. The peers of the device are set with the routes.
func WireGuard() lifecycle.Loop {
	return lifecycle.Loop{
		Name:   api.LoopWireGuard,
		Kind:   "Machine",
		Claims: []string{"wireguard:starling"},
		Steps: []lifecycle.Step{{
			Name:    "wireguard",
			Where:   lifecycle.OnMachine,
			Reads:   []string{"spec.wireguard"},
			Outputs: []string{"status.wireguard"},
			Timeout: 30 * time.Second,
			Retry:   lifecycle.Retry{Base: time.Second, Max: 15 * time.Second},
			Do:      act(tunnelEnd),
		}},
	}
}

func tunnelEnd(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	var on *bool
	if in.Fields.Has("spec.wireguard") {
		said := in.Fields.Bool("spec.wireguard")
		on = &said
	}
	host, ok := h.(Tunneler)
	if !ok {
		return lifecycle.Outputs{}, nil
	}
	end, err := host.Tunnels().Ensure(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("set up WireGuard on %s: %w", in.Machine, err)
	}
	if end.Key == "" {
		return lifecycle.Outputs{}, nil
	}
	return lifecycle.Outputs{
		"status.wireguard.key":    api.Str(end.Key),
		"status.wireguard.port":   api.Int(end.Port),
		"status.wireguard.device": api.Str(end.Device),
		"status.wireguard.mtu":    api.Int(end.MTU),
	}, nil
}

// tunnelMark begins, in "cluster.routes.NAME", what others must know of a machine's
// device: its key and port.
const tunnelMark = "wireguard:"

// TunnelOf is what others must know of a machine's device; empty if it has none.
func TunnelOf(machine *lifecycle.Object) string {
	status := machine.Select("status.wireguard.key", "status.wireguard.port")
	key := status.String("status.wireguard.key")
	if key == "" {
		return ""
	}
	return fmt.Sprintf("%s%s:%d", tunnelMark, key, status.Int("status.wireguard.port"))
}

func parseEnd(s string) (end TunnelEnd, err error) {
	key, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || key == "" {
		return end, fmt.Errorf("%q is not a key and a port", s)
	}
	return TunnelEnd{Key: key, Port: uint16(n)}, nil
}
