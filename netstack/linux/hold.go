package linux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An address that is held expires in the kernel unless it is renewed, so that a machine
// whose peer has died gives it up by itself. Its value bounds for how long that machine and
// its successor both answer; the successor goes on advertising for as long. The kernel takes
// whole seconds.
const (
	holdLife  = 4 * time.Second
	holdRenew = time.Second
)

// Holder answers for addresses of the LAN that are not the machine's own: those of load
// balancers. They are set on the uplink for a short life, and the LAN is told of each new
// one. Its methods may be called concurrently.
type Holder struct {
	n *Network

	mu   sync.Mutex              // guards what follows; held while the kernel is changed
	held map[netip.Addr]*holding // by address
}

type holding struct {
	link string
	due  int // advertisements that are still to be sent
}

// NewHolder returns one that holds nothing.
func (n *Network) NewHolder() *Holder { return &Holder{n: n, held: map[netip.Addr]*holding{}} }

// Set makes the machine answer for these addresses and for no others.
func (h *Holder) Set(want []netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for a, have := range h.held {
		if !slices.Contains(want, a) {
			errs = append(errs, h.drop(a, have))
		}
	}
	for _, a := range want {
		if h.held[a] == nil {
			errs = append(errs, h.take(a))
		}
	}
	return errors.Join(errs...)
}

// Held lists what the machine answers for, sorted.
func (h *Holder) Held() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Keys(h.held), netip.Addr.Compare)
}

// Run renews what is held, and repeats advertisements, until the context ends. Then the
// addresses stay for the rest of their life: a peer that is back by then finds them, and
// nothing has moved; if it is not, another machine has taken them.
func (h *Holder) Run(ctx context.Context) error {
	ticker := time.NewTicker(holdRenew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			h.tick()
		}
	}
}

// String names the task.
func (h *Holder) String() string { return "addresses of load balancers" }

func (h *Holder) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a, have := range h.held {
		if err := h.set(a, have.link); err != nil {
			h.n.log.Warn("renew the address of a load balancer", "address", a, "err", err)
		}
		if have.due > 0 {
			have.due--
			if err := h.tell(a, have.link); err != nil {
				h.n.log.Warn("advertise the address of a load balancer", "address", a, "err", err)
			}
		}
	}
}

func (h *Holder) take(a netip.Addr) error {
	link, err := h.linkFor(a)
	if err != nil {
		return fmt.Errorf("answer for %s: %w", a, err)
	}
	if err := h.set(a, link); err != nil {
		return fmt.Errorf("answer for %s: %w", a, err)
	}
	h.held[a] = &holding{link: link, due: int(holdLife / holdRenew)}
	h.n.log.Info("this machine answers for the address of a load balancer", "address", a, "link", link)
	return h.tell(a, link)
}

func (h *Holder) drop(a netip.Addr, have *holding) error {
	delete(h.held, a)
	h.n.log.Info("this machine no longer answers for the address of a load balancer", "address", a)
	link, err := h.n.host.link(have.link)
	if err != nil || link == nil {
		return err // the address went with its link
	}
	err = h.n.host.nl.AddrDel(link, lease(a))
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil // it has expired
	}
	return h.n.host.wrote(err, named("no address "+a.String()))
}

// linkFor is the link whose LAN the address is of, else the first uplink.
func (h *Holder) linkFor(a netip.Addr) (string, error) {
	links, err := h.n.host.links()
	if err != nil {
		return "", err
	}
	all, err := h.n.host.addresses(nil, links)
	if err != nil {
		return "", err
	}
	for _, have := range all {
		if have.Link != "lo" && !have.Prefix.IsSingleIP() && have.Prefix.Contains(a) {
			return have.Link, nil
		}
	}
	return h.n.Uplink()
}

func (h *Holder) set(a netip.Addr, link string) error {
	l, err := h.n.host.link(link)
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("there is no link %s", link)
	}
	return h.n.host.wrote(h.n.host.nl.AddrReplace(l, lease(a)), named("address "+a.String()))
}

// lease is the address as the kernel is told it. It is not preferred, so that the machine
// never speaks from it by itself.
func lease(a netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen())), ValidLft: int(holdLife / time.Second)}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

// tell has the LAN know that the address is here now.
func (h *Holder) tell(a netip.Addr, link string) error {
	if a.Is4() {
		return h.n.tellIPv4(a, link)
	}
	conn, l, err := h.n.openNDP(link)
	if err != nil {
		return err
	}
	defer conn.Close()
	return send(conn, l, &ndp.NeighborAdvertisement{
		Override: true, TargetAddress: a,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: l.HardwareAddr}},
	})
}

// tellIPv4 broadcasts a gratuitous ARP request (RFC 5227, section 3), which those who know
// the address take over.
func (n *Network) tellIPv4(a netip.Addr, link string) error {
	return Within(n.host.fd, func() error {
		l, err := net.InterfaceByName(link)
		if err != nil {
			return fmt.Errorf("advertise %s: %w", a, err)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket for ARP: %w", err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: l.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
		if err := unix.Sendto(fd, gratuitous(a, l.HardwareAddr), 0, to); err != nil {
			return fmt.Errorf("send ARP on link %s: %w", link, err)
		}
		return nil
	})
}

// gratuitous is an Ethernet frame with an ARP request (RFC 826) for one's own address.
func gratuitous(a netip.Addr, mac net.HardwareAddr) []byte {
	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
	frame = append(frame, 0x08, 0x06) // EtherType ARP
	frame = append(frame, 0, 1, 0x08, 0, 6, 4, 0, 1)
	frame = append(append(frame, mac...), a.AsSlice()...)
	return append(append(frame, 0, 0, 0, 0, 0, 0), a.AsSlice()...)
}
