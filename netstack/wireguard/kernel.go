package wireguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// errNoKernel means that this kernel has no WireGuard.
var errNoKernel = errors.New("the kernel has no WireGuard")

// kernel is the kernel's own device.
type kernel struct {
	link string
	ctl  *wgctrl.Client
}

// openKernel makes the device, or adopts the one that an earlier process made.
func openKernel(link string) (backend, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = link
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return nil, errNoKernel
	case err != nil && !errors.Is(err, unix.EEXIST):
		return nil, fmt.Errorf("make link %s: %w", link, err)
	}
	ctl, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("speak to the kernel's WireGuard: %w", err)
	}
	if _, err := ctl.Device(link); err != nil {
		return nil, errors.Join(fmt.Errorf("link %s is no WireGuard device: %w; delete it, or whatever makes it", link, err), ctl.Close())
	}
	return &kernel{link, ctl}, nil
}

func (k *kernel) kind() string { return "kernel" }

func (k *kernel) alive() bool {
	_, err := k.ctl.Device(k.link)
	return err == nil
}

func (k *kernel) close() error { return k.ctl.Close() }

func (k *kernel) remove() error { return errors.Join(k.ctl.Close(), removeLink(k.link)) }

func (k *kernel) configure(private Key, port uint16, changes []change) error {
	listen := int(port)
	cfg := wgtypes.Config{PrivateKey: &private, ListenPort: &listen, Peers: kernelPeers(changes)}
	if err := k.ctl.ConfigureDevice(k.link, cfg); err != nil {
		return fmt.Errorf("configure link %s: %w", k.link, err)
	}
	return nil
}

// kernelPeers are changes in the kernel's words.
func kernelPeers(changes []change) (list []wgtypes.PeerConfig) {
	every := keepalive
	for _, c := range changes {
		if c.Remove {
			list = append(list, wgtypes.PeerConfig{PublicKey: c.Public, Remove: true})
			continue
		}
		p := wgtypes.PeerConfig{PublicKey: c.Public, PersistentKeepaliveInterval: &every, ReplaceAllowedIPs: true}
		if c.Endpoint.IsValid() {
			p.Endpoint = net.UDPAddrFromAddrPort(c.Endpoint)
		}
		for _, prefix := range c.Prefixes {
			p.AllowedIPs = append(p.AllowedIPs, net.IPNet{
				IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
			})
		}
		list = append(list, p)
	}
	return list
}

func (k *kernel) peers() (list []state, err error) {
	device, err := k.ctl.Device(k.link)
	if err != nil {
		return nil, fmt.Errorf("read link %s: %w", k.link, err)
	}
	for _, p := range device.Peers {
		s := state{Public: p.PublicKey, Sent: uint64(p.TransmitBytes), Received: uint64(p.ReceiveBytes)}
		if p.Endpoint != nil {
			at := p.Endpoint.AddrPort()
			s.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		}
		if !p.LastHandshakeTime.IsZero() && p.LastHandshakeTime.After(time.Unix(0, 0)) {
			s.Handshake = p.LastHandshakeTime
		}
		list = append(list, s)
	}
	return list, nil
}
