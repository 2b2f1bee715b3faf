package loops

import (
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
)

// Address draws the pod's one IPv6 address at random from its machine's prefix, or from
// the LAN's. It keeps the address for life: a pod that moves takes it along. Only a LAN
// that is renumbered renumbers its pods.
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
	prefix, err := netip.ParsePrefix(in.Fields.String("machine.prefix"))
	if old, ok := in.Previous["status.address"]; ok && !renumbered(prefix, in.Previous.String("status.address")) {
		return lifecycle.Outputs{"status.address": old}, nil
	}
	if err != nil {
		return nil, &lifecycle.Error{
			Code: api.Internal, Wait: true,
			Message: fmt.Sprintf("%s has no prefix for pods yet; look at `peer status machine/%s`", in.Machine, in.Machine),
		}
	}
	return lifecycle.Outputs{"status.address": api.Str(netstack.RandomAddress(prefix, v.Random).String())}, nil
}

// renumbered reports whether an address of a LAN leads nowhere any more, since the LAN has
// another prefix now. (One of a machine's prefix is routed wherever the pod goes.)
func renumbered(prefix netip.Prefix, address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && prefix.IsValid() && prefix.Bits() == lanBits && !prefix.Contains(a)
}

// lanBits is the length of a LAN's prefix.
const lanBits = 64
