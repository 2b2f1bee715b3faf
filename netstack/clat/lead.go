package clat

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"starling.dev/starling/netstack"
)

// Lead gives each of these IPv6 addresses, and no others, an address of the machine's range:
// what the machine's rules send there (destination NAT) reaches the IPv6 address, from where
// the NAT64 prefix holds the client's. It is for what has no address of its own in the range
// (see Addresses). An address follows from the target's where that is free, and stays as
// long as the target is listed. The map must not be changed.
func (d *Device) Lead(targets []netip.Addr) (map[netip.Addr]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(targets) == len(d.leads) && !slices.ContainsFunc(targets, func(a netip.Addr) bool { return !d.leads[a].IsValid() }) {
		return d.leads, nil
	}
	leads := make(map[netip.Addr]netip.Addr, len(targets))
	used := map[netip.Addr]bool{}
	for _, to := range targets {
		if a := d.leads[to]; a.IsValid() {
			leads[to], used[a] = a, true
		}
	}
	for _, to := range targets {
		if leads[to].IsValid() {
			continue
		}
		a := netstack.PickIPv4(d.cfg.leads(), to.String(), func(a netip.Addr) bool { return used[a] })
		if !a.IsValid() {
			return d.leads, fmt.Errorf("lead IPv4 to %s: all addresses of %v are in use", to, d.cfg.leads())
		}
		leads[to], used[a] = a, true
	}
	if maps.Equal(leads, d.leads) {
		return d.leads, nil
	}
	d.leads = leads
	return leads, d.publish()
}
