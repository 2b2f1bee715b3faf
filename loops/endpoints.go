package loops

import (
	"net/netip"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/service"
)

// PodEntry is a pod as services and names see it; g is the graph of pods.
func PodEntry(o *lifecycle.Object, g *lifecycle.Graph) service.Pod {
	status := o.Status()
	p := service.Pod{
		Key: keyOf(o), ID: o.ID, Machine: status.String("status.machine"), Labels: map[string]string{},
		Ports: map[string]uint16{}, IPv4: o.Fields.String("spec.network.ipv4"),
		Serving: serving(o, g, status),
	}
	p.Address, _ = netip.ParseAddr(status.String("status.address"))
	for _, k := range o.Fields.Keys("spec.labels") {
		p.Labels[k] = o.Fields.String(api.Child("spec.labels", k))
	}
	for _, c := range o.Fields.Keys("spec.containers") {
		ports := api.Child("spec.containers", c) + ".ports"
		for _, name := range o.Fields.Keys(ports) {
			if _, taken := p.Ports[name]; !taken {
				p.Ports[name] = uint16(o.Fields.Int(api.Child(ports, name)))
			}
		}
	}
	return p
}

// serving reports whether a pod takes new connections: it is ready, and its containers
// run what its spec says now. So a pod leaves its services on every machine as soon as
// that machine learns of the edit, the restart, the move or the deletion that will stop
// its containers, and not only when they have stopped. That its machine is silent is no
// reason: nobody knows whether it still serves.
func serving(o *lifecycle.Object, g *lifecycle.Graph, status api.Fields) bool {
	machine := status.String("status.machine")
	ready, running := o.Results["ready"], o.Results["container"]
	return !o.Deleted && o.Fields.String("lifecycle.target") == api.TargetReady &&
		ready.Phase == lifecycle.PhaseDone && ready.Executor == machine && status.Bool("status.ready") &&
		running.Phase == lifecycle.PhaseDone && running.Executor == machine &&
		running.Reads == g.ReadsHash(o, "container", machine)
}

// ServiceEntry is a service as machines see it.
func ServiceEntry(o *lifecycle.Object) service.Spec {
	f := o.Fields
	s := service.Spec{Key: keyOf(o), Select: map[string]string{}, Affinity: f.String("spec.affinity") == api.AffinityClient}
	for _, k := range f.Keys("spec.select") {
		s.Select[k] = f.String(api.Child("spec.select", k))
	}
	for _, name := range f.Keys("spec.ports") {
		at := api.Child("spec.ports", name)
		s.Ports = append(s.Ports, service.Port{
			Name: name, Protocol: f.String(at + ".protocol"),
			Port: uint16(f.Int(at + ".port")), Target: uint16(f.Int(at + ".target")),
		})
	}
	if f.Bool("spec.address") {
		s.Address, _ = netip.ParseAddr(o.Status().String("status.address"))
	}
	s.Pool = f.String("spec.pool")
	for _, a := range o.Select("status.external").Strings("status.external") {
		if address, err := netip.ParseAddr(a); err == nil && f.Has("spec.pool") {
			s.External = append(s.External, address)
		}
	}
	return s
}

// MachineEntry is a machine as names see it: by its address in the cluster.
func MachineEntry(o *lifecycle.Object, silent bool) service.Machine {
	m := service.Machine{Name: o.Key.Name, Silent: silent}
	if own, err := netip.ParsePrefix(o.Status().String("status.prefix")); err == nil {
		m.Address = netstack.MachineAddress(own)
	}
	return m
}

func keyOf(o *lifecycle.Object) service.Key {
	return service.Key{Namespace: o.Key.Namespace, Name: o.Key.Name}
}
