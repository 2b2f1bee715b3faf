package loops

import (
	"context"
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
			Reads:    []string{"status.machine", "status.address", "spec.network"},
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
	path, err := h.Network().Attach(ctx, PodNetwork{
		ID: in.ID, Name: in.Key.Name, Address: address, IPv4: in.Fields.String("spec.network.ipv4"),
	})
	if err != nil {
		return nil, fmt.Errorf("connect the pod on %s: %w", in.Machine, err)
	}
	return lifecycle.Outputs{"status.network.namespace": api.Str(path)}, nil
}

func detach(ctx context.Context, h Host, in lifecycle.Inputs) error {
	return h.Network().Detach(ctx, in.ID)
}
