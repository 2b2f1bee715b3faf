package loops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Machine returns the loops of a machine.
func Machine() []lifecycle.Loop {
	return []lifecycle.Loop{Inventory(), Runtime(), WireGuard(), Routes(), MachineReadiness()}
}

// MachineTargets are the named points of a machine's lifecycle. A drained machine
// does all that a ready one does; the scheduler keeps pods away from it.
func MachineTargets() []lifecycle.Target {
	return []lifecycle.Target{
		{Name: api.TargetDrained, Goal: true, Requires: []string{"ready"}, Doc: "The machine runs no pods and takes none."},
	}
}

// Inventory reads what the machine is.
func Inventory() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopInventory,
		Kind: "Machine",
		Steps: []lifecycle.Step{{
			Name:  "inventory",
			Where: lifecycle.OnMachine,
			Reads: []string{"spec.address"},
			Outputs: []string{
				"status.capacity", "status.os", "status.kernel", "status.architecture",
				"status.version", "status.level", "status.address", "status.listening", "status.lan", "status.delegated",
			},
			Timeout: 10 * time.Second,
			Do:      act(probe),
			Expect:  probed,
		}},
	}
}

func probe(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	inv, err := h.Facts().Probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the machine's inventory: %w", err)
	}
	address := inv.Address
	if own := in.Fields.String("spec.address"); own != "" {
		address = own
	}
	out := lifecycle.Outputs{
		"status.capacity.cpu":    api.CPU(inv.CPU),
		"status.capacity.memory": api.Bytes(inv.Memory),
		"status.os":              api.Str(inv.OS),
		"status.kernel":          api.Str(inv.Kernel),
		"status.architecture":    api.Str(inv.Architecture),
		"status.version":         api.Str(inv.Version),
		"status.level":           api.Int(inv.Level),
		"status.address":         api.Str(address),
	}
	if inv.Delegated {
		out["status.delegated"] = api.Bool(true)
	}
	if inv.LAN.IsValid() {
		out["status.lan"] = api.Str(inv.LAN.String())
	}
	for port, by := range inv.Listening {
		out[api.Join("status", "listening", strconv.Itoa(int(port)))] = api.Str(by)
	}
	return out, nil
}

// probed foretells the inventory: a machine is what it was, at the address it is given.
func probed(in lifecycle.Inputs) lifecycle.Outputs {
	out := in.Previous.Clone()
	if own := in.Fields.String("spec.address"); own != "" {
		out["status.address"] = api.Str(own)
	}
	return out
}

// Runtime checks that containers can be run.
func Runtime() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopRuntime,
		Kind: "Machine",
		Steps: []lifecycle.Step{{
			Name:    "runtime",
			Where:   lifecycle.OnMachine,
			Reads:   []string{},
			Outputs: []string{"status.runtime", "status.runtimes"},
			Timeout: 30 * time.Second,
			Retry:   lifecycle.Retry{Base: time.Second, Max: 15 * time.Second},
			Do: act(func(ctx context.Context, h Host, _ lifecycle.Inputs) (lifecycle.Outputs, error) {
				version, err := h.Facts().RuntimeReady(ctx)
				if err != nil {
					return nil, err
				}
				return lifecycle.Outputs{"status.runtime": api.Str(version)}, nil
			}),
		}},
	}
}

// Routes keeps the machine's part of the cluster network: its own prefix, and a
// route to each other machine's.
func Routes() lifecycle.Loop {
	return lifecycle.Loop{
		Name:   api.LoopRoutes,
		Kind:   "Machine",
		Claims: []string{"routes:starling"},
		Steps: []lifecycle.Step{{
			Name:    "routes",
			Where:   lifecycle.OnMachine,
			Reads:   []string{"status.address", "status.wireguard", "cluster.routes"},
			Outputs: []string{"status.prefix", "status.routes"},
			Timeout: 30 * time.Second,
			Do:      act(route),
		}},
	}
}

func route(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	plan := RoutePlan{Cluster: h.Facts().ClusterPrefix(), Own: h.Facts().OwnPrefix()}
	tunnelled := in.Fields.String("status.wireguard.key") != ""
	for _, machine := range in.Fields.Keys("cluster.routes") {
		var list []string
		if err := json.Unmarshal([]byte(in.Fields[api.Child("cluster.routes", machine)]), &list); err != nil {
			return nil, fmt.Errorf("read cluster.routes.%s: %w", machine, err)
		}
		m, err := parseRoutes(machine, list)
		if err != nil {
			return nil, err
		}
		plan.add(m, tunnelled && m.Key != "")
	}
	slices.SortFunc(plan.Routes, func(a, b Route) int { return strings.Compare(a.Prefix.String(), b.Prefix.String()) })
	if err := h.Network().Routes(ctx, plan); err != nil {
		return nil, fmt.Errorf("set the routes of %s: %w", in.Machine, err)
	}
	return lifecycle.Outputs{"status.prefix": api.Str(plan.Own.String()), "status.routes": api.Int(len(plan.Routes))}, nil
}

// add routes to what is behind another machine, by its address or by a tunnel.
func (p *RoutePlan) add(m TunnelPeer, tunnel bool) {
	for _, prefix := range m.Prefixes {
		p.Routes = append(p.Routes, Route{Prefix: prefix, Machine: m.Machine, Via: m.Address, Tunnel: tunnel})
	}
	if tunnel {
		p.Tunnels = append(p.Tunnels, m)
	}
}

// parseRoutes reads a machine's address, then the end of its tunnels if it has one, and
// the prefixes that are behind it.
func parseRoutes(machine string, list []string) (m TunnelPeer, err error) {
	if len(list) == 0 {
		return m, fmt.Errorf("%s has neither an address nor prefixes", machine)
	}
	m.Machine = machine
	if m.Address, err = netip.ParseAddr(list[0]); err != nil {
		return m, fmt.Errorf("address of %s: %w", machine, err)
	}
	for _, s := range list[1:] {
		if end, ok := strings.CutPrefix(s, tunnelMark); ok {
			if m.TunnelEnd, err = parseEnd(end); err != nil {
				return m, fmt.Errorf("tunnels of %s: %w", machine, err)
			}
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return m, fmt.Errorf("prefix of %s: %w", machine, err)
		}
		m.Prefixes = append(m.Prefixes, p)
	}
	return m, nil
}

// MachineReadiness says when the machine can take pods.
func MachineReadiness() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopReadiness,
		Kind: "Machine",
		Steps: []lifecycle.Step{{
			Name:     "ready",
			Goal:     true,
			Requires: []string{"inventory", "runtime", "wireguard", "routes"},
			Where:    lifecycle.OnMachine,
			Outputs:  []string{"status.ready"},
			Timeout:  5 * time.Second,
			Decide: func(lifecycle.View, lifecycle.Inputs) (lifecycle.Outputs, error) {
				return lifecycle.Outputs{"status.ready": "true"}, nil
			},
		}},
	}
}
