package linux

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
)

// State prints what the machine has of ours, as the kernel tells it, in the words of a
// plan; then what differs from the plan ("missing", "left over").
func (n *Network) State(ctx context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	state, err := n.observe()
	if err != nil {
		return "", fmt.Errorf("read the network's state: %w", err)
	}
	machine, unreached, err := n.planMachineLocked(state)
	if err != nil {
		return "", fmt.Errorf("read the network's state: %w", err)
	}
	plan := netstack.MachinePlan(machine)
	have, err := n.present(plan, state)
	if err != nil {
		return "", fmt.Errorf("read the network's state: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "uplinks %s\n", strings.Join(machine.Uplinks, " "))
	b.WriteString(have.String())
	proxies, err := n.host.proxies()
	if err != nil {
		return "", fmt.Errorf("read the network's state: %w", err)
	}
	n.printPods(&b, state, proxies)
	if c, ok, err := n.conntrack(); err != nil {
		return "", fmt.Errorf("read the network's state: %w", err)
	} else if ok {
		fmt.Fprintln(&b, c)
	}
	if n.plan != nil {
		printDifference(&b, have.Lines(), plan.Lines())
	}
	if unreached != nil {
		fmt.Fprintf(&b, "%v\n", unreached)
	}
	return b.String(), nil
}

// present is the part of the plan's kinds of things that the kernel has.
func (n *Network) present(plan netstack.Plan, state machineState) (netstack.Plan, error) {
	have := netstack.Plan{Routes: state.routes}
	conn, err := n.host.nft()
	if err != nil {
		return have, err
	}
	marks, err := tableMarks(conn)
	if err != nil {
		return have, err
	}
	if slices.Equal(marks, wantMarks(plan.Table)) {
		have.Table = plan.Table
	}
	var keys []string
	for _, s := range plan.Sysctls {
		keys = append(keys, s.Key)
	}
	values := n.host.sysctls(keys)
	for _, k := range keys {
		have.Sysctls = append(have.Sysctls, netstack.Sysctl{Key: k, Value: values[k]})
	}
	for _, a := range state.addresses {
		if n.oursOnMachine(a) {
			have.Addresses = append(have.Addresses, a)
		}
	}
	slices.SortFunc(have.Routes, func(a, b netstack.Route) int { return cmp.Compare(a.String(), b.String()) })
	return have, nil
}

// printPods prints each pod's end of its link with its routes, and where the machine
// answers for it.
func (n *Network) printPods(b *strings.Builder, state machineState, proxies map[netstack.Proxy]bool) {
	for _, i := range slices.Sorted(maps.Keys(state.links)) {
		l := state.links[i]
		id, ok := netstack.PodOfName(n.cfg.Scope, l.Alias)
		if !ok {
			continue
		}
		fmt.Fprintf(b, "pod %s%s\n  link %s mtu %d%s\n", id, n.podName(id), l.Name, l.MTU, upOrDown(l))
		for _, line := range n.interfaceLines(id, state.links) {
			fmt.Fprintf(b, "  %s\n", line)
		}
		for _, r := range state.pods[l.Name] {
			fmt.Fprintf(b, "  %s\n", r)
			for p := range proxies {
				if p.Address == r.Prefix.Addr() {
					fmt.Fprintf(b, "  %s\n", p)
				}
			}
		}
	}
}

func (n *Network) podName(id string) string {
	if p, ok := n.pods[id]; ok && p.Name != "" {
		return " (" + p.Name + ")"
	}
	return ""
}

// interfaceLines are the further links of a pod that this process attached, each with its
// port of a bridge if it has one.
func (n *Network) interfaceLines(id string, links map[int]*netlink.LinkAttrs) (lines []string) {
	for _, i := range n.pods[id].Interfaces {
		line := fmt.Sprintf("interface %s on %s", i.Name, i.Attach)
		for _, l := range links {
			if l.Alias == netstack.InterfaceAlias(n.cfg.Scope, id, i.Name) {
				line += " by port " + l.Name + upOrDown(l)
			}
		}
		lines = append(lines, line)
	}
	if n.lacking[id] {
		lines = append(lines, "an interface has no link to attach to")
	}
	return lines
}

func upOrDown(l *netlink.LinkAttrs) string {
	if l.Flags&net.FlagUp != 0 {
		return " up"
	}
	return " down"
}

func printDifference(b *strings.Builder, have, want []string) {
	for _, line := range want {
		if !slices.Contains(have, line) {
			fmt.Fprintf(b, "missing: %s\n", strings.TrimSpace(line))
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			fmt.Fprintf(b, "left over: %s\n", strings.TrimSpace(line))
		}
	}
}
