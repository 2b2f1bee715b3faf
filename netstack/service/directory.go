package service

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// Directory is what a peer knows by name and by address. Its methods may be called
// concurrently; what they return is never changed.
type Directory struct {
	mu       sync.RWMutex // guards what follows
	synced   bool
	pods     map[Key]Pod
	services map[Key]Service
	machines map[string]Machine
	owners   map[netip.Addr]Owner
	// byNamespace holds the names of services and of pods, so that a change looks at its
	// own namespace only.
	podsIn, servicesIn map[string]map[string]struct{}
	// on holds the pods of each machine.
	on map[string]map[Key]struct{}
}

// NewDirectory returns an empty one that does not know whether it is complete.
func NewDirectory() *Directory {
	return &Directory{
		pods: map[Key]Pod{}, services: map[Key]Service{}, machines: map[string]Machine{}, owners: map[netip.Addr]Owner{},
		podsIn: map[string]map[string]struct{}{}, servicesIn: map[string]map[string]struct{}{}, on: map[string]map[Key]struct{}{},
	}
}

// Change is what is different from before.
type Change struct {
	Pods         []Pod // new, or other than before
	GonePods     []Key
	Services     []Spec
	GoneServices []Key
	Machines     []Machine
	GoneMachines []string
	// Synced: what is not in the directory does not exist, as far as anybody knows.
	Synced bool
}

// Empty reports whether nothing is said but whether the directory is complete.
func (c Change) Empty() bool {
	return len(c.Pods)+len(c.GonePods)+len(c.Services)+len(c.GoneServices)+len(c.Machines)+len(c.GoneMachines) == 0
}

// Effect is what a change did to services.
type Effect struct {
	// Services are those that are other than before, with what they were; a zero Key
	// in Before or After stands for none.
	Services []Difference
}

// Difference is one service before and after a change.
type Difference struct{ Before, After Service }

// Update takes in what changed.
func (d *Directory) Update(c Change) Effect {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = c.Synced
	dirty := map[Key]bool{}
	for _, m := range c.Machines {
		d.setMachine(m, dirty)
	}
	for _, name := range c.GoneMachines {
		d.setMachine(Machine{Name: name}, dirty)
		delete(d.machines, name)
	}
	for _, p := range c.Pods {
		d.removePod(p.Key, dirty)
		d.addPod(p, dirty)
	}
	for _, k := range c.GonePods {
		d.removePod(k, dirty)
	}
	gone, before := d.changeSpecs(c, dirty)
	return d.settle(dirty, gone, before)
}

// changeSpecs takes in specs, and returns what the services were before.
func (d *Directory) changeSpecs(c Change, dirty map[Key]bool) (gone []Key, before map[Key]Service) {
	before = map[Key]Service{}
	note := func(k Key) {
		if _, ok := before[k]; !ok {
			before[k] = d.services[k]
		}
	}
	for _, s := range c.Services {
		note(s.Key)
		add(d.servicesIn, s.Namespace, s.Name)
		d.services[s.Key] = Service{Spec: s, Endpoints: d.services[s.Key].Endpoints}
		dirty[s.Key] = true
	}
	for _, k := range c.GoneServices {
		note(k)
		remove(d.servicesIn, k.Namespace, k.Name)
		delete(d.services, k)
		delete(dirty, k)
		gone = append(gone, k)
	}
	return gone, before
}

// settle finds the endpoints of what a change concerns.
func (d *Directory) settle(dirty map[Key]bool, gone []Key, before map[Key]Service) Effect {
	var e Effect
	for _, k := range slices.SortedFunc(maps.Keys(dirty), Key.Compare) {
		now, ok := d.services[k]
		if !ok {
			continue
		}
		old, fresh := before[k]
		if !fresh {
			old = now
		}
		now.Endpoints = d.endpoints(now.Spec)
		d.services[k] = now
		d.own(old, now)
		if fresh || !slices.EqualFunc(old.Endpoints, now.Endpoints, Endpoint.equal) {
			e.Services = append(e.Services, Difference{old, now})
		}
	}
	for _, k := range gone {
		d.own(before[k], Service{})
		e.Services = append(e.Services, Difference{Before: before[k]})
	}
	return e
}

// own notes a service's address.
func (d *Directory) own(before, after Service) {
	if before.Address.IsValid() && before.Address != after.Address {
		delete(d.owners, before.Address)
	}
	if after.Address.IsValid() {
		d.owners[after.Address] = Owner{Service: &after}
	}
}

// endpoints finds the pods behind a service. Pods of machines that do not answer count
// only while there are no others: nobody knows whether they are reached, and their names
// must not vanish.
func (d *Directory) endpoints(s Spec) []Endpoint {
	var good, doubtful []Endpoint
	for _, name := range slices.Sorted(maps.Keys(d.podsIn[s.Namespace])) {
		p := d.pods[Key{s.Namespace, name}]
		if !p.Serving || !p.Address.IsValid() || !s.selects(p) {
			continue
		}
		e := Endpoint{Pod: p.Name, Address: p.Address}
		for _, port := range s.Ports {
			e.Ports = append(e.Ports, port.of(p))
		}
		if d.machines[p.Machine].Silent {
			doubtful = append(doubtful, e)
		} else {
			good = append(good, e)
		}
	}
	if len(good) > 0 {
		return good
	}
	return doubtful
}

func (d *Directory) addPod(p Pod, dirty map[Key]bool) {
	d.pods[p.Key] = p
	add(d.podsIn, p.Namespace, p.Name)
	if d.on[p.Machine] == nil {
		d.on[p.Machine] = map[Key]struct{}{}
	}
	d.on[p.Machine][p.Key] = struct{}{}
	if p.Address.IsValid() {
		d.owners[p.Address] = Owner{Pod: &p}
	}
	d.markServicesOf(p, dirty)
}

func (d *Directory) removePod(k Key, dirty map[Key]bool) {
	p, ok := d.pods[k]
	if !ok {
		return
	}
	delete(d.pods, k)
	remove(d.podsIn, k.Namespace, k.Name)
	delete(d.on[p.Machine], k)
	if o := d.owners[p.Address]; o.Pod != nil && o.Pod.Key == k {
		delete(d.owners, p.Address)
	}
	d.markServicesOf(p, dirty)
}

// markServicesOf marks the services that a pod belongs to.
func (d *Directory) markServicesOf(p Pod, dirty map[Key]bool) {
	for name := range d.servicesIn[p.Namespace] {
		k := Key{p.Namespace, name}
		if d.services[k].selects(p) {
			dirty[k] = true
		}
	}
}

func (d *Directory) setMachine(m Machine, dirty map[Key]bool) {
	old := d.machines[m.Name]
	if old.Address.IsValid() && old.Address != m.Address {
		delete(d.owners, old.Address)
	}
	if m.Address.IsValid() {
		d.owners[m.Address] = Owner{Machine: m.Name}
	}
	d.machines[m.Name] = m
	if old.Silent == m.Silent {
		return
	}
	for k := range d.on[m.Name] {
		d.markServicesOf(d.pods[k], dirty)
	}
}

func add(index map[string]map[string]struct{}, namespace, name string) {
	if index[namespace] == nil {
		index[namespace] = map[string]struct{}{}
	}
	index[namespace][name] = struct{}{}
}

func remove(index map[string]map[string]struct{}, namespace, name string) {
	delete(index[namespace], name)
	if len(index[namespace]) == 0 {
		delete(index, namespace)
	}
}
