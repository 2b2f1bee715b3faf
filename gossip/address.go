package gossip

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// addresses reads this machine's addresses and routes. It is an interface so that
// tests can move a machine.
type addresses interface {
	// Own lists the machine's addresses, those of tunnels last: nobody outside may know
	// of a tunnel, such as the one that translates for this machine's own pods.
	Own() ([]netip.Addr, error)
	// Towards returns the address that packets to a target leave from.
	Towards(target netip.Addr) (netip.Addr, error)
}

type hostAddresses struct{}

// Own lists the addresses of all interfaces.
func (hostAddresses) Own() ([]netip.Addr, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the machine's interfaces: %w", err)
	}
	var own, tunnels []netip.Addr
	for _, link := range links {
		list, err := link.Addrs()
		if err != nil {
			continue // the interface has just gone
		}
		into := &own
		if link.Flags&net.FlagPointToPoint != 0 {
			into = &tunnels
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				*into = append(*into, p.Addr().Unmap())
			}
		}
	}
	slices.SortFunc(own, netip.Addr.Compare)
	slices.SortFunc(tunnels, netip.Addr.Compare)
	return append(own, tunnels...), nil
}

// Towards asks the kernel's routes by connecting a UDP socket, which sends nothing.
func (hostAddresses) Towards(target netip.Addr) (netip.Addr, error) {
	c, err := net.Dial("udp", netip.AddrPortFrom(target, 9).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the source address towards %s: %w", target, err)
	}
	defer c.Close()
	return addrOf(c.LocalAddr()), nil
}

// advertised chooses the address that others are told. In order: the configured one;
// the one that is bound, if it is a single one; the source address towards a machine of
// the cluster, or the one at which such a machine reached this one; and, while nobody
// is known, the source address of the default route, which is then only a guess.
// A chosen address is kept for as long as the machine has it, so that it does
// not flap between interfaces that are equally good.
type advertised struct {
	fixed netip.Addr
	host  addresses

	mu     sync.Mutex
	addr   netip.Addr
	proven bool // Invariant: a proven address led to or from another machine.
}

func newAdvertised(configured, bound netip.Addr, host addresses) *advertised {
	a := &advertised{host: host, fixed: configured.Unmap()}
	if !configured.IsValid() && bound.IsValid() && !bound.IsUnspecified() {
		a.fixed = bound.Unmap()
	}
	a.addr = a.fixed
	return a
}

// current is the address to advertise; not valid before the first choose.
func (a *advertised) current() netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addr
}

// reached takes note of the local address at which another machine reached this one:
// better than a guess, where several networks lead to this machine.
func (a *advertised) reached(local, remote netip.Addr) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fixed.IsValid() || a.proven || !usable(local) || local == remote {
		return false
	}
	if local.IsLoopback() && !a.addr.IsLoopback() && a.addr.IsValid() {
		return false
	}
	changed = a.addr != local
	a.addr, a.proven = local, true
	return changed
}

// choose picks the address again if there is none, the machine lost it, or it was only a
// guess and targets are known by now. Targets are addresses of other machines.
func (a *advertised) choose(targets []netip.Addr) (changed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fixed.IsValid() {
		return false, nil
	}
	own, err := a.host.Own()
	if err != nil {
		return false, err
	}
	if a.proven && slices.Contains(own, a.addr) {
		return false, nil
	}
	addr, proven := a.pick(targets, own)
	if !addr.IsValid() {
		return false, fmt.Errorf("choose an address to advertise: the machine has none that others could reach; give one with --advertise")
	}
	if !proven && slices.Contains(own, a.addr) {
		return false, nil // a guess is no better than the guess before
	}
	changed = a.addr != addr
	a.addr, a.proven = addr, proven
	return changed, nil
}

func (a *advertised) pick(targets, own []netip.Addr) (addr netip.Addr, proven bool) {
	for _, t := range targets {
		src, err := a.host.Towards(t)
		// A target that is this machine proves nothing, unless all are here.
		if err == nil && usable(src) && (src != t || t.IsLoopback()) {
			return src, true
		}
	}
	for _, t := range []netip.Addr{anywhere4, anywhere6} {
		if src, err := a.host.Towards(t); err == nil && usable(src) && !src.IsLoopback() {
			return src, false
		}
	}
	own = slices.DeleteFunc(slices.Clone(own), func(o netip.Addr) bool { return !usable(o) })
	slices.SortStableFunc(own, func(x, y netip.Addr) int {
		if x.IsLoopback() == y.IsLoopback() {
			return 0
		}
		return map[bool]int{true: 1, false: -1}[x.IsLoopback()]
	})
	if len(own) == 0 {
		return netip.Addr{}, false
	}
	return own[0], false
}

// Documentation addresses (RFC 5737, RFC 3849) stand for "anywhere": routed by the
// default route, and nothing is sent to them.
var (
	anywhere4 = netip.AddrFrom4([4]byte{192, 0, 2, 1})
	anywhere6 = netip.MustParseAddr("2001:db8::1")
)

func usable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLinkLocalUnicast() && !a.IsMulticast()
}

// bindOrDefault fills in what is missing of where to listen. All addresses are written
// 0.0.0.0, which Go takes for IPv6 as well where the kernel has it, and which works
// where it has not.
func bindOrDefault(bind netip.AddrPort, port uint16) netip.AddrPort {
	if bind.Addr().IsValid() {
		return bind
	}
	if bind.Port() != 0 {
		port = bind.Port()
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), port)
}
