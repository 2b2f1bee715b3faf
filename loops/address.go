package loops

import (
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
)

// Address draws the pod's one IPv6 address at random from its machine's prefix. It
// keeps the address for life: a pod that moves takes it along.
func Address() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopAddress,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "address",
			Requires: []string{"admit"},
			Before:   []string{"network"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "machine.prefix"},
			Consults: []string{"Machine"},
			Outputs:  []string{"status.address"},
			Timeout:  5 * time.Second,
			Decide:   draw,
		}},
	}
}

func draw(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	if old, ok := in.Previous["status.address"]; ok {
		return lifecycle.Outputs{"status.address": old}, nil
	}
	prefix, err := netip.ParsePrefix(in.Fields.String("machine.prefix"))
	if err != nil {
		return nil, &lifecycle.Error{
			Code: api.Internal, Wait: true,
			Message: fmt.Sprintf("%s has no prefix for pods yet; look at `peer status machine/%s`", in.Machine, in.Machine),
		}
	}
	return lifecycle.Outputs{"status.address": api.Str(netstack.RandomAddress(prefix, v.Random).String())}, nil
}
