package daemon

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/peer"
)

// firstAddress is where others reach this machine, before any of them has been met.
func (d *Daemon) firstAddress() netip.Addr {
	if d.cfg.Advertise.IsValid() {
		return d.cfg.Advertise
	}
	if a, err := netip.ParseAddr(d.home.facts.Advertise); err == nil && isOwn(a) {
		return a
	}
	for _, target := range []string{"192.0.2.1", "2001:db8::1"} {
		if a, err := d.network.AdvertiseAddr(netip.MustParseAddr(target)); err == nil && a.IsGlobalUnicast() {
			return a
		}
	}
	for _, a := range ownAddresses() {
		if a.IsGlobalUnicast() {
			return a
		}
	}
	return netip.Addr{}
}

func isOwn(a netip.Addr) bool {
	for _, own := range ownAddresses() {
		if own == a {
			return true
		}
	}
	return false
}

// ownAddresses lists the addresses of this machine, IPv4 first, but those of tunnels
// last: nobody outside may know of them.
func ownAddresses() []netip.Addr {
	links, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var list [3][]netip.Addr
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue // the interface has just gone
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			switch {
			case err != nil:
			case link.Flags&net.FlagPointToPoint != 0:
				list[2] = append(list[2], p.Addr())
			case p.Addr().Is4():
				list[0] = append(list[0], p.Addr())
			default:
				list[1] = append(list[1], p.Addr())
			}
		}
	}
	return slices.Concat(list[:]...)
}

// setAddress notes the address, and has the machine's inventory read again if it is
// another than before.
func (d *Daemon) setAddress(ctx context.Context, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	a = a.Unmap().WithZone("")
	old := d.facts.address.Swap(&a)
	if old == nil || *old == a {
		return
	}
	d.cfg.Logger.Info("this machine's address changed", "from", *old, "to", a)
	d.loop.Post(ctx, peer.Again{Key: d.selfKey(), Step: "inventory"})
}

// checkLAN has the machine's inventory read again if its LAN has another prefix than when
// that was last done.
func (d *Daemon) checkLAN(ctx context.Context) {
	if d.facts.lan == nil {
		return
	}
	known := d.facts.lanKnown.Load()
	if now, err := d.facts.lan(); err == nil && known != nil && *known != now {
		d.cfg.Logger.Info("this machine's LAN has another prefix", "from", *known, "to", now)
		d.loop.Post(ctx, peer.Again{Key: d.selfKey(), Step: "inventory"})
	}
}

// setListening notes which programs have ports that pods want, and has the machine's
// inventory read again if that is another answer than before.
func (d *Daemon) setListening(ctx context.Context, by map[uint16]string) {
	if old := d.facts.listening.Swap(&by); old != nil && maps.Equal(*old, by) || old == nil && len(by) == 0 {
		return
	}
	d.loop.Post(ctx, peer.Again{Key: d.selfKey(), Step: "inventory"})
}

func (d *Daemon) selfKey() api.Key {
	name, err := d.home.name()
	if err != nil {
		name = d.home.facts.Name
	}
	return api.Key{Kind: "Machine", Name: name}
}

// watchAddresses has gossip look at this machine's address as soon as the kernel reports
// a change: the others would call the machine silent before gossip looked by itself.
func (d *Daemon) watchAddresses(ctx context.Context) error {
	return d.network.WatchAddresses(ctx, d.membership.Readdress)
}

// followAddress takes over the address that gossip has settled on: it knows towards
// which machines this one speaks.
func (d *Daemon) followAddress(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.membership.Ready():
	}
	for {
		if !d.cfg.Advertise.IsValid() {
			d.setAddress(ctx, d.membership.Addr().Addr())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(addressRecheck):
		}
	}
}

// addressRecheck is how soon a changed address is noticed here after gossip has.
const addressRecheck = 2 * time.Second
