package service

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Synced reports whether what is not in the directory does not exist.
func (d *Directory) Synced() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.synced
}

// Pod finds a pod by its name.
func (d *Directory) Pod(k Key) (Pod, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p, ok := d.pods[k]
	return p, ok
}

// Service finds a service by its name.
func (d *Directory) Service(k Key) (Service, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s, ok := d.services[k]
	return s, ok
}

// Machine finds a machine by its name.
func (d *Directory) Machine(name string) (Machine, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	m, ok := d.machines[name]
	return m, ok
}

// Machines returns all machines, sorted by name.
func (d *Directory) Machines() []Machine {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.machines), func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
}

// Owner finds what has an address.
func (d *Directory) Owner(a netip.Addr) (Owner, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.owners[a]
	return o, ok
}

// Services returns all services, sorted by key.
func (d *Directory) Services() []Service {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.services), func(a, b Service) int { return a.Compare(b.Key) })
}

// Pods returns all pods, sorted by key.
func (d *Directory) Pods() []Pod {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.SortedFunc(maps.Values(d.pods), func(a, b Pod) int { return a.Compare(b.Key) })
}

// PodsOn returns the addresses of a machine's pods, sorted.
func (d *Directory) PodsOn(machine string) []netip.Addr {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var list []netip.Addr
	for k := range d.on[machine] {
		if a := d.pods[k].Address; a.IsValid() {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// ServicesOf returns the services that select a pod, ready or not.
func (d *Directory) ServicesOf(k Key) []Service {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p, ok := d.pods[k]
	if !ok {
		return nil
	}
	var list []Service
	for name := range d.servicesIn[k.Namespace] {
		if s := d.services[Key{k.Namespace, name}]; s.selects(p) {
			list = append(list, s)
		}
	}
	return list
}
