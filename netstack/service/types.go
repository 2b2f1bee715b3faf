package service

import (
	"net/netip"
	"slices"
	"strings"
)

// Key names a pod or a service.
type Key struct{ Namespace, Name string }

// Compare orders keys by namespace and name.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, o.Name)
}

// String prints "shop/web".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Pod is a pod as services and names see it. It is never changed.
type Pod struct {
	Key
	// ID is the object's identity.
	ID      string
	Address netip.Addr // zero: it has none yet
	Machine string
	Labels  map[string]string
	Ports   map[string]uint16 // of all containers, by name
	IPv4    string            // how it reaches the IPv4 internet
	// Serving: it is ready, and nothing is on the way that would stop it.
	Serving bool
}

// Port is one port of a service.
type Port struct {
	Name     string
	Protocol string // tcp | udp
	Port     uint16
	// Target is the port that pods listen on; 0: their port of this name, else Port.
	Target uint16
}

// of is the port that a pod listens on.
func (p Port) of(pod Pod) uint16 {
	if p.Target != 0 {
		return p.Target
	}
	if n, ok := pod.Ports[p.Name]; ok {
		return n
	}
	return p.Port
}

// Spec is a service as people want it. It is never changed.
type Spec struct {
	Key
	Select   map[string]string
	Ports    []Port     // sorted by name
	Address  netip.Addr // zero: the service is a name alone
	Affinity bool       // a client stays with its pod
	// Pool is where External comes from.
	Pool string
	// External are its addresses for clients outside of the cluster.
	External []netip.Addr
}

// selects reports whether the service is about a pod, ready or not.
func (s Spec) selects(p Pod) bool { return p.Namespace == s.Namespace && Match(s.Select, p.Labels) }

// Match reports whether labels have all the wanted values. Nothing wanted matches all.
func Match(want, labels map[string]string) bool {
	for k, v := range want {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// Endpoint is a pod behind a service.
type Endpoint struct {
	Pod     string // its name, in the service's namespace
	Address netip.Addr
	Ports   []uint16 // in the order of Spec.Ports
}

func (e Endpoint) equal(o Endpoint) bool {
	return e.Pod == o.Pod && e.Address == o.Address && slices.Equal(e.Ports, o.Ports)
}

// Service is a service with the pods that stand behind it now. It is never changed.
type Service struct {
	Spec
	Endpoints []Endpoint // sorted by the pods' names
}

// Machine is a machine as names see it.
type Machine struct {
	Name    string
	Address netip.Addr // zero: not known yet
	// Silent: it does not answer, as seen from here.
	Silent bool
}

// Owner is what has an address. One of its fields is set.
type Owner struct {
	Pod     *Pod
	Service *Service
	Machine string
}
