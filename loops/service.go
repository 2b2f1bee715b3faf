package loops

import (
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
)

// Service returns the loops of a service. What a service does to the network is no
// step: every machine follows all services and their pods, and keeps its own tables.
func Service() []lifecycle.Loop { return []lifecycle.Loop{ServiceAddress(), ServiceExternal()} }

// ServiceTargets are the named points of a service's lifecycle.
func ServiceTargets() []lifecycle.Target {
	return []lifecycle.Target{
		{Name: api.TargetReady, Goal: true, Requires: []string{"address", "external"}, Doc: "The service has the addresses that it wants."},
	}
}

// AllowTargets are the named points of an Allow's lifecycle. It has no steps: machines
// follow all Allows, as they do services.
func AllowTargets() []lifecycle.Target {
	return []lifecycle.Target{{Name: api.TargetReady, Goal: true, Doc: "The Allow counts on every machine that knows it."}}
}

// ServiceAddress draws the service's address at random from the cluster's prefix for
// services. Once drawn it stays, also while the service does without.
func ServiceAddress() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopAddress,
		Kind: "Service",
		Steps: []lifecycle.Step{{
			Name:     "address",
			Where:    lifecycle.OnExecutor,
			Reads:    []string{"spec.address"},
			Consults: []string{"Machine"},
			Outputs:  []string{"status.address"},
			Timeout:  5 * time.Second,
			Decide:   drawForService,
		}},
	}
}

func drawForService(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	if old, ok := in.Previous["status.address"]; ok {
		return lifecycle.Outputs{"status.address": old}, nil
	}
	if !in.Fields.Bool("spec.address") {
		return lifecycle.Outputs{}, nil
	}
	cluster, ok := clusterOf(v)
	if !ok {
		return nil, &lifecycle.Error{
			Code: api.Internal, Wait: true,
			Message: "no machine has its prefix yet, from which the cluster's is known; look at `peer machine ls`",
		}
	}
	address := netstack.RandomAddress(netstack.ServicePrefix(cluster), v.Random)
	return lifecycle.Outputs{"status.address": api.Str(address.String())}, nil
}

// clusterOf finds the cluster's prefix in any machine's.
func clusterOf(v lifecycle.View) (netip.Prefix, bool) {
	for _, m := range v.Objects("Machine") {
		own, err := netip.ParsePrefix(m.Select("status.prefix").String("status.prefix"))
		if err == nil && own.Bits() == netstack.MachineBits {
			return netip.PrefixFrom(own.Addr(), netstack.ClusterBits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}
