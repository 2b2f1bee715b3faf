package linux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// An address that comes to this machine is advertised so often, at this interval, so
// that neighbours that knew it elsewhere learn of it even if one is lost.
const (
	advertisements    = 3
	advertiseInterval = time.Second
)

// LANPrefix returns the /64 of the machine's uplink, which pods have their addresses from
// in mode lan.
func (n *Network) LANPrefix() (netip.Prefix, error) {
	uplink, err := n.Uplink()
	if err != nil {
		return netip.Prefix{}, err
	}
	link, err := n.host.link(uplink)
	if err != nil {
		return netip.Prefix{}, err
	}
	list, err := n.host.nl.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		p, ok := prefixOf(a.IPNet)
		if ok && p.Bits() == 64 && p.Addr().IsGlobalUnicast() && a.Flags&(unix.IFA_F_DEPRECATED|unix.IFA_F_TENTATIVE) == 0 {
			return p.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("link %s has no IPv6 /64 of its LAN: use mode routed", uplink)
}

// announce makes the machine answer for the pod's address and tells the LAN at once,
// if that is new. In mode routed there is nothing to announce: the others route the
// whole prefix.
func (n *Network) announce(want []netstack.Proxy) error {
	if len(want) == 0 {
		return nil
	}
	have, err := n.host.proxies()
	if err != nil {
		return err
	}
	links, err := n.host.links()
	if err != nil {
		return err
	}
	byName := indexes(links)
	for _, p := range want {
		if have[p] {
			continue
		}
		if err := n.host.wrote(n.host.nl.NeighSet(kernelProxy(p, byName[p.Link])), p); err != nil {
			return err
		}
		if err := n.advertiseOnce(p); err != nil {
			return err
		}
		n.mu.Lock()
		n.due[p.Address] = advertisements - 1
		n.mu.Unlock()
	}
	return nil
}

// withdraw ends the answers for the addresses of a pod: the one that is known, and
// those that are routed to its link, which is nil if it is gone.
func (n *Network) withdraw(link netlink.Link, known netip.Addr) error {
	if n.cfg.Mode != Lan {
		return nil
	}
	links, err := n.host.links()
	if err != nil {
		return err
	}
	gone := []netip.Addr{known}
	if link != nil {
		routes, err := n.host.ourRoutes(link.Attrs().Index, links)
		if err != nil {
			return err
		}
		for _, r := range routes {
			gone = append(gone, r.Prefix.Addr())
		}
	}
	have, err := n.host.proxies()
	if err != nil {
		return err
	}
	byName := indexes(links)
	var errs []error
	for p := range have {
		if slices.Contains(gone, p.Address) {
			errs = append(errs, n.host.wrote(n.host.nl.NeighDel(kernelProxy(p, byName[p.Link])), p))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range gone {
		delete(n.due, a)
	}
	return errors.Join(errs...)
}

func kernelProxy(p netstack.Proxy, index int) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V6, Flags: netlink.NTF_PROXY, IP: p.Address.AsSlice()}
}

// advertiseOnce tells the LAN that the address is here.
func (n *Network) advertiseOnce(p netstack.Proxy) error {
	conn, link, err := n.openNDP(p.Link)
	if err != nil {
		return err
	}
	defer conn.Close()
	return send(conn, link, advertisement(p.Address, link))
}

// openNDP opens neighbour discovery on a link of the machine. The link is known to the
// socket by its number: package net remembers the numbers of names for the whole
// process, whichever namespace it first saw them in.
func (n *Network) openNDP(name string) (conn *ndp.Conn, link *net.Interface, err error) {
	err = Within(n.host.fd, func() (err error) {
		if link, err = net.InterfaceByName(name); err != nil {
			return err
		}
		link.Name = strconv.Itoa(link.Index)
		if conn, _, err = ndp.Listen(link, ndp.LinkLocal); err != nil {
			return err
		}
		return conn.JoinGroup(netip.IPv6LinkLocalAllNodes()) // where others advertise
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open neighbour discovery on link %s: %w", name, err)
	}
	return conn, link, nil
}

// advertisement tells that the address is at this link, whatever was known before.
func advertisement(a netip.Addr, link *net.Interface) ndp.Message {
	return &ndp.NeighborAdvertisement{
		Override: true, TargetAddress: a,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: link.HardwareAddr}},
	}
}

// solicitation asks who has the address. Without our own link-layer address in it,
// nobody who doesn't know us yet would answer (RFC 4861, section 4.3).
func solicitation(a netip.Addr, link *net.Interface) ndp.Message {
	return &ndp.NeighborSolicitation{
		TargetAddress: a,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: link.HardwareAddr}},
	}
}

func send(conn *ndp.Conn, link *net.Interface, m ndp.Message) error {
	to := netip.IPv6LinkLocalAllNodes()
	if ns, ok := m.(*ndp.NeighborSolicitation); ok {
		group, err := ndp.SolicitedNodeMulticast(ns.TargetAddress)
		if err != nil {
			return fmt.Errorf("ask for a neighbour: %w", err)
		}
		to = group
	}
	if err := conn.WriteTo(m, nil, to); err != nil {
		return fmt.Errorf("send on link %d: %w", link.Index, err)
	}
	return nil
}

// advertise repeats advertisements while there are some due, asks once for each new
// address whether somebody else has it too, and reports who answers.
func (n *Network) advertise(ctx context.Context, g *errgroup.Group) error {
	uplink, err := n.Uplink()
	if err != nil {
		return err
	}
	conn, link, err := n.openNDP(uplink)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	g.Go(func() error { return n.hear(ctx, conn, link) })
	g.Go(func() error {
		for {
			n.advertiseDue(conn, link)
			if err := wait(ctx, advertiseInterval); err != nil {
				return err
			}
		}
	})
	return nil
}

func (n *Network) advertiseDue(conn *ndp.Conn, link *net.Interface) {
	n.mu.Lock()
	due := maps.Clone(n.due)
	for a, left := range due {
		if left--; left > 0 {
			n.due[a] = left
		} else {
			delete(n.due, a)
		}
	}
	n.mu.Unlock()
	for a, left := range due {
		messages := []ndp.Message{advertisement(a, link)}
		if left == advertisements-1 {
			messages = append(messages, solicitation(a, link))
		}
		for _, m := range messages {
			if err := send(conn, link, m); err != nil {
				n.log.Warn("advertise a pod's address", "address", a, "err", err)
			}
		}
	}
}

// hear reads advertisements of others, and reports those for addresses of pods here.
func (n *Network) hear(ctx context.Context, conn *ndp.Conn, link *net.Interface) error {
	for {
		m, _, _, err := conn.ReadFrom()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("hear neighbours: %w", err)
			}
			continue // a malformed message of somebody
		}
		if na, ok := m.(*ndp.NeighborAdvertisement); ok {
			n.checkDuplicate(na, link)
		}
	}
}

func (n *Network) checkDuplicate(na *ndp.NeighborAdvertisement, link *net.Interface) {
	for _, o := range na.Options {
		lla, ok := o.(*ndp.LinkLayerAddress)
		if !ok || len(lla.Addr) != len(netstack.MAC{}) || slices.Equal(lla.Addr, link.HardwareAddr) || !n.isAttached(na.TargetAddress) {
			continue
		}
		mac := netstack.MAC(lla.Addr)
		n.log.Warn("another machine answers for the address of a pod here", "address", na.TargetAddress, "mac", mac)
		if n.cfg.Duplicate != nil {
			n.cfg.Duplicate(na.TargetAddress, mac)
		}
	}
}

func (n *Network) isAttached(a netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.Address == a {
			return true
		}
	}
	return false
}
