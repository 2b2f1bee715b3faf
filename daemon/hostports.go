package daemon

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
)

// hostPortsOf are the ports of this machine that lead to a pod which is connected here. IPv4
// is left out.
func (f *follower) hostPortsOf(o *lifecycle.Object) (list []netstack.HostPort) {
	made := o.Results["network"]
	if made.Executor != f.self || len(made.Outputs.Keys("status.network.hostPorts")) == 0 {
		return nil
	}
	address, err := netip.ParseAddr(o.Status().String("status.address"))
	if err != nil {
		return nil
	}
	for _, p := range loops.HostPorts(o.Fields) {
		// The spec may have been edited since: what the network step wrote counts.
		if made.Outputs.Int(api.Child("status.network.hostPorts", p.Name)) == int64(p.Host) {
			list = append(list, netstack.HostPort{Host: p.Host, Pod: address, Port: p.Pod})
		}
	}
	return list
}

// hostPorts are the pods of the cluster that ask for ports of their machine, and what
// follows from them.
type hostPorts struct {
	pods map[api.Key]*lifecycle.Object
	// wanted are the ports that any of them asks for, led those that lead to a pod here.
	wanted []uint16
	led    []netstack.HostPort
	// onlyIPv6 are those addresses of led that the NAT64 has to be told of.
	onlyIPv6 []netip.Addr
	stale    bool // wanted and led are of before a change
	// entrances are what the kernel's table holds.
	entrances netstack.Entrances
	looked    time.Time // when the programs of this machine were last looked at
}

// note takes in that a pod changed.
func (h *hostPorts) note(o *lifecycle.Object) {
	_, had := h.pods[o.Key]
	if has := len(loops.HostPorts(o.Fields)) > 0; !has && !had {
		return
	} else if has {
		h.pods[o.Key] = o
	} else {
		delete(h.pods, o.Key)
	}
	h.stale = true
}

// drop takes in that a pod is gone.
func (h *hostPorts) drop(key api.Key) {
	if _, had := h.pods[key]; had {
		delete(h.pods, key)
		h.stale = true
	}
}

// settleHostPorts works out again what is wanted and what leads here, if a pod changed.
func (f *follower) settleHostPorts() {
	h := &f.host
	if !h.stale {
		return
	}
	h.stale, h.looked, h.wanted, h.led, h.onlyIPv6 = false, time.Time{}, nil, nil, nil
	for _, o := range h.pods {
		for _, p := range loops.HostPorts(o.Fields) {
			h.wanted = append(h.wanted, p.Host)
		}
		f.leadTo(o)
	}
	slices.Sort(h.wanted)
	h.wanted = slices.Compact(h.wanted)
	slices.SortFunc(h.led, func(a, b netstack.HostPort) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), a.Pod.Compare(b.Pod))
	})
	// While a pod leaves and another comes, the table has a port once.
	h.led = slices.CompactFunc(h.led, func(a, b netstack.HostPort) bool { return a.Host == b.Host })
}

// leadTo adds the host ports of a pod.
func (f *follower) leadTo(o *lifecycle.Object) {
	list := f.hostPortsOf(o)
	if len(list) == 0 {
		return
	}
	ipv4, own := f.podIPv4(o.ID, o.Fields.String("spec.network.ipv4"))
	for i := range list {
		list[i].IPv4 = ipv4
	}
	f.host.led = append(f.host.led, list...)
	if !own {
		f.host.onlyIPv6 = append(f.host.onlyIPv6, list[0].Pod)
	}
}

// relead has the host ports worked out again: a pod has got another IPv4 address.
func (f *follower) relead() {
	f.mu.Lock()
	f.host.stale = true
	f.mu.Unlock()
	f.nudge()
}

// lookAgain is how soon a program that begins or ceases to listen is noticed. The kernel
// does not tell, so it is asked, as long as a pod wants a host port.
const lookAgain = 2 * time.Second

// look finds the programs that have ports which pods want. A port that leads to a pod here
// is that pod's, whoever listens behind it.
func (f *follower) look(ctx context.Context) error {
	if len(f.host.pods) > 0 && time.Since(f.host.looked) < lookAgain {
		return nil
	}
	f.host.looked = time.Now()
	free := slices.DeleteFunc(slices.Clone(f.host.wanted), func(port uint16) bool {
		return slices.ContainsFunc(f.host.led, func(p netstack.HostPort) bool { return p.Host == port })
	})
	found, err := f.ports.Listeners(free)
	if err != nil {
		return err
	}
	f.listening(ctx, found)
	return nil
}

// lead brings the kernel's table of host ports and of load balancers' IPv4 addresses in step.
// What has no IPv4 address of its own gets one at the NAT64 first.
func (f *follower) lead() error {
	b := &f.balancer
	targets := slices.Clone(f.host.onlyIPv6)
	for _, front := range b.fronts {
		targets = append(targets, netstack.StandIn(front.At.Addr()))
	}
	slices.SortFunc(targets, netip.Addr.Compare)
	var by map[netip.Addr]netip.Addr
	by, b.failed = f.leadIPv4(slices.Compact(targets))
	var all netstack.Entrances
	for _, p := range f.host.led {
		if !p.IPv4.IsValid() {
			p.IPv4 = by[p.Pod]
		}
		all.Ports = append(all.Ports, p)
	}
	for _, front := range b.fronts {
		if front.To = by[netstack.StandIn(front.At.Addr())]; front.To.IsValid() {
			all.Fronts = append(all.Fronts, front)
		}
	}
	f.host.entrances = all
	if !f.settled() {
		return nil // what an earlier run has led stays
	}
	if f.inStep {
		return f.ports.Set(all)
	}
	return f.ports.Sync(all)
}

// admitPorts fails if another program of the machine has a host port of the pod, unless
// that port leads to the pod already.
func (f *follower) admitPorts(pod loops.PodNetwork) error {
	if len(pod.HostPorts) == 0 {
		return nil
	}
	f.mu.Lock()
	leads := f.host.led
	f.mu.Unlock()
	var fresh []uint16
	for _, p := range pod.HostPorts {
		if !slices.ContainsFunc(leads, func(l netstack.HostPort) bool { return l.Host == p.Host && l.Pod == pod.Address }) {
			fresh = append(fresh, p.Host)
		}
	}
	used, err := f.ports.Listeners(fresh)
	if err != nil {
		return err
	}
	for _, port := range fresh {
		if by, ok := used[port]; ok {
			return &loops.PortInUse{Port: port, By: by}
		}
	}
	return nil
}
