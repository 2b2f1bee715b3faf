package loops

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Networking connects the pod: its network namespace, its address, and its way out.
func Networking() lifecycle.Loop {
	return lifecycle.Loop{
		Name:   api.LoopNetwork,
		Kind:   "Pod",
		Claims: []string{"nftables:starling", "netns"},
		Steps: []lifecycle.Step{{
			Name:     "network",
			Requires: []string{"address"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "status.address", "spec.network", "spec.containers.*.ports", "spec.containers.*.hostPorts"},
			Consults: []string{"Machine"}, // which may learn that a port is free
			Outputs:  []string{"status.network"},
			Timeout:  30 * time.Second,
			Do:       act(attach),
			Undo:     undo(detach),
		}},
	}
}

func attach(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	address, err := netip.ParseAddr(in.Fields.String("status.address"))
	if err != nil {
		return nil, fmt.Errorf("read status.address: %w", err)
	}
	ports := HostPorts(in.Fields)
	path, err := h.Network().Attach(ctx, PodNetwork{
		ID: in.ID, Name: in.Key.Name, Address: address, IPv4: in.Fields.String("spec.network.ipv4"), HostPorts: ports,
		Interfaces: Interfaces(in.Fields),
	})
	if other := (*PortInUse)(nil); errors.As(err, &other) {
		return nil, &lifecycle.Error{Code: api.PortInUse, Message: other.Error() + " on " + in.Machine, Wait: true}
	}
	if missing := (*LinkMissing)(nil); errors.As(err, &missing) {
		return nil, &lifecycle.Error{Code: api.LinkMissing, Message: missing.Error() + " on " + in.Machine, Wait: true}
	}
	if err != nil {
		return nil, fmt.Errorf("connect the pod on %s: %w", in.Machine, err)
	}
	out := lifecycle.Outputs{"status.network.namespace": api.Str(path)}
	for _, p := range ports {
		out[api.Join("status", "network", "hostPorts", p.Name)] = api.Int(p.Host)
	}
	return out, nil
}

func detach(ctx context.Context, h Host, in lifecycle.Inputs) error {
	return h.Network().Detach(ctx, in.ID)
}
