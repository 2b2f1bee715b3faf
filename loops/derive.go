package loops

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Surroundings is the cluster as a kind's Derive sees it. Whatever Derive asks for
// is noted, and the object is looked at again when that changes.
type Surroundings interface {
	lifecycle.View
	// Belongs reports whether a machine is a member of the cluster.
	Belongs(machine string) bool
	// Object returns one object, which must not be changed.
	Object(key api.Key) (*lifecycle.Object, bool)
	// Children tells how the children that a loop made for an object stand, sorted by key.
	Children(parent *lifecycle.Object, loop string) []ChildState
	// Routes is what [RoutesOf] computes of the cluster, but a machine's own, as fields. It
	// must not be changed.
	Routes(except string) api.Fields
	// Ask has the voters asked, now, whether a machine is silent.
	Ask(machine string)
	// WakeAt has the object looked at again at the given time.
	WakeAt(t time.Time)
}

// What machine.standing can be: how a pod's machine stands, as far as that decides
// where the pod belongs.
const (
	StandingGood    = "good"
	StandingDrained = "drained"
	StandingSilent  = "silent"
	StandingRemoved = "removed"
)

// DerivePod adds what a pod reads of its machine, below "machine.".
func DerivePod(o *lifecycle.Object, v Surroundings) api.Fields {
	name, placed := o.Field("status.machine")
	if !placed {
		return nil
	}
	machine := text(name)
	fields := make(api.Fields, 4)
	fields["machine.standing"] = api.Str(machineStanding(o, machine, v))
	deriveProbed(o, fields)
	m, ok := v.Object(api.Key{Kind: "Machine", Name: machine})
	if !ok {
		return fields
	}
	if p, ok := podPrefix(m); ok {
		fields["machine.prefix"] = p
	}
	if d, ok := m.Field("status.delegated"); ok {
		fields["machine.delegated"] = d
		if a, ok := o.Field(cloudAddress); ok {
			fields["machine.allocated"] = a
		}
	}
	deriveListening(o, m, fields)
	capacity := m.Select("status.capacity.cpu", "status.capacity.memory")
	fields["machine.capacity.cpu"] = api.CPU(capacity.CPU("status.capacity.cpu") - m.Fields.CPU("spec.reserve.cpu"))
	fields["machine.capacity.memory"] = api.Bytes(capacity.Bytes("status.capacity.memory") - m.Fields.Bytes("spec.reserve.memory"))
	return fields
}

// text reads a string that is a field's value.
func text(value string) string { return api.Fields{"": value}.String("") }

// podPrefix is what a machine's pods have their addresses from: the LAN's prefix in mode
// lan, else the machine's own.
func podPrefix(m *lifecycle.Object) (string, bool) {
	if p, ok := m.Field("status.lan"); ok {
		return p, true
	}
	return m.Field("status.prefix")
}

// IsAtHome reports whether an address is of the prefix that a machine's pods have theirs
// from, so that the others find it there without a route of its own.
func IsAtHome(m *lifecycle.Object, a netip.Addr) bool {
	value, _ := podPrefix(m)
	p, err := netip.ParsePrefix(text(value))
	return err == nil && p.Contains(a)
}

// machineStanding judges the pod's machine. Silence counts after the pod's grace,
// when a majority of the voters, asked now, find the same.
func machineStanding(o *lifecycle.Object, machine string, v Surroundings) string {
	if !v.Belongs(machine) {
		return StandingRemoved
	}
	if m, ok := v.Object(api.Key{Kind: "Machine", Name: machine}); ok && m.Fields.String("lifecycle.target") == api.TargetDrained {
		return StandingDrained
	}
	member := v.Member(machine)
	if member.Alive || o.Fields.String("spec.partition") == api.PartitionPinned {
		return StandingGood
	}
	if due := member.Since.Add(o.Fields.Duration("spec.grace")); v.Now().Before(due) {
		v.WakeAt(due)
		return StandingGood
	}
	if member.Silent {
		return StandingSilent
	}
	v.Ask(machine)
	return StandingGood
}

// DeriveMachine adds the machine's routes to the others: "cluster.routes.NAME" is a list of the machine's address, the prefixes
// behind it (its own /96 and the /128 of each pod that moved there), and the end of its tunnels if it has one.
func DeriveMachine(o *lifecycle.Object, v Surroundings) api.Fields { return v.Routes(o.Key.Name) }

// RoutesBut are the fields of all routes but a machine's own.
func RoutesBut(all map[string]string, except string) api.Fields {
	fields := make(api.Fields, len(all))
	for machine, list := range all {
		if machine != except {
			fields[api.Join("cluster", "routes", machine)] = list
		}
	}
	return fields
}

// RoutesOf lists, by machine, what DeriveMachine tells the others of it. It depends on who is
// a member and on what was said of machines and pods, not on who answers. moved are the pods that
// may have left their machine's prefix.
func RoutesOf(v Surroundings, moved []*lifecycle.Object) map[string]string {
	machines := map[string]*lifecycle.Object{}
	routes := map[string][]string{}
	for _, m := range v.Objects("Machine") {
		status := m.Select("status.prefix", "status.address")
		p, err := netip.ParsePrefix(status.String("status.prefix"))
		if address := status.String("status.address"); err == nil && address != "" && v.Belongs(m.Key.Name) {
			machines[m.Key.Name] = m
			routes[m.Key.Name] = []string{address, p.String()}
			if end := TunnelOf(m); end != "" {
				routes[m.Key.Name] = append(routes[m.Key.Name], end)
			}
		}
	}
	for _, pod := range moved {
		machine, address, ok := Home(pod)
		if m := machines[machine]; ok && m != nil && !IsAtHome(m, address) {
			routes[machine] = append(routes[machine], netip.PrefixFrom(address, 128).String())
		}
	}
	lists := make(map[string]string, len(routes))
	for machine, list := range routes {
		slices.Sort(list[1:])
		raw, err := json.Marshal(list)
		if err != nil {
			panic(fmt.Sprintf("a list of strings is plain data: %v", err))
		}
		lists[machine] = string(raw)
	}
	return lists
}

// Home is where a pod's address lives: the machine that connected it. While a pod moves
// that is the old machine, until it lets go.
func Home(pod *lifecycle.Object) (machine string, address netip.Addr, ok bool) {
	value, given := pod.Field("status.address")
	if !given {
		return "", address, false
	}
	address, err := netip.ParseAddr(text(value))
	if r := pod.Results["network"]; r.Phase != lifecycle.PhaseNever && r.Phase != lifecycle.PhaseUndone {
		return r.Executor, address, err == nil
	}
	name, _ := pod.Field("status.machine")
	return text(name), address, err == nil
}
