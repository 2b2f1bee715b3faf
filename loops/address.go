package loops

import (
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
)

// cloudAddress is where the foreign loop of mode cloud says which address the pod has. The
// step reads it as "machine.allocated", which is there in that mode alone.
var cloudAddress = api.ForeignStatus("cloud") + ".address"

// Address draws the pod's one IPv6 address at random from its machine's prefix, or from
// the LAN's. It keeps the address for life: a pod that moves takes it along. Only a LAN
// that is renumbered renumbers its pods. In mode cloud the address is the one that the
// loop "cloud" has allocated, which changes when that says another.
func Address() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopAddress,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "address",
			Requires: []string{"admit"},
			Before:   []string{"network"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "machine.prefix", "machine.delegated", "machine.allocated"},
			Consults: []string{"Machine"},
			Outputs:  []string{"status.address"},
			Timeout:  5 * time.Second,
			Decide:   draw,
		}},
	}
}

func draw(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	if in.Fields.Bool("machine.delegated") {
		return delegated(in)
	}
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

// delegated takes the address that the cloud's loop has allocated.
func delegated(in lifecycle.Inputs) (lifecycle.Outputs, error) {
	given := in.Fields.String("machine.allocated")
	if given == "" {
		return nil, &lifecycle.Error{
			Code: api.LoopDetached, Wait: true,
			Message: "the network of this cluster is cloud, and no loop called cloud has given the pod an address; run one with a step before address on " + in.Machine,
		}
	}
	a, err := netip.ParseAddr(given)
	if err != nil || !a.Is6() || a.Is4In6() || !a.IsGlobalUnicast() {
		return nil, &lifecycle.Error{
			Code: api.Invalid, Wait: true,
			Message: fmt.Sprintf("loop cloud has given the pod the address %q, which is no IPv6 address that others can reach", given),
		}
	}
	return lifecycle.Outputs{"status.address": api.Str(a.String())}, nil
}

// renumbered reports whether an address of a LAN leads nowhere any more, since the LAN has
// another prefix now. (One of a machine's prefix is routed wherever the pod goes.)
func renumbered(prefix netip.Prefix, address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && prefix.IsValid() && prefix.Bits() == lanBits && !prefix.Contains(a)
}

// lanBits is the length of a LAN's prefix.
const lanBits = 64
