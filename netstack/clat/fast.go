package clat

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/fastpath"
)

// fast configures the translation inside the kernel.
func (c Config) fast() fastpath.Config {
	return fastpath.Config{Prefix: c.Prefix, IPv4: c.IPv4, Inside: PodAddress, MTU: c.MTU, Clsact: c.Clsact}
}

// openFast sets up the fast path, if this kernel has what it takes. The caller holds mu.
func (d *Device) openFast() {
	if d.cfg.TUNOnly {
		return
	}
	err := within(d.cfg.Machine, func() error {
		nat64, err := netlink.LinkByName(d.cfg.Link)
		if err != nil {
			return fmt.Errorf("find link %s: %w", d.cfg.Link, err)
		}
		path, err := fastpath.Load(d.cfg.fast(), nat64.Attrs().Index)
		if err != nil {
			return err
		}
		if err := path.Machine(nat64.Attrs().Index); err != nil {
			return errors.Join(err, path.Close())
		}
		d.pathMu.Lock()
		defer d.pathMu.Unlock()
		d.path = path
		return nil
	})
	if err != nil {
		d.cfg.Log.Warn("no fast path for IPv4 on this kernel: all of it goes through the TUN links", "error", err)
		return
	}
	d.cfg.Log.Info("IPv4 has a fast path in the kernel", "hook", d.path.Hook())
}

// closeFast lets go of the fast path, which goes on.
func (d *Device) closeFast() error {
	d.pathMu.Lock()
	defer d.pathMu.Unlock()
	path := d.path
	d.path = nil
	if path == nil {
		return nil
	}
	return path.Close()
}

// rehook hooks the fast path to the machine's link again, in the machine's namespace.
func (d *Device) rehook() error {
	d.pathMu.RLock()
	defer d.pathMu.RUnlock()
	if d.path == nil {
		return nil
	}
	nat64, err := netlink.LinkByName(d.cfg.Link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", d.cfg.Link, err)
	}
	return d.path.Machine(nat64.Attrs().Index)
}

// hasten puts a pod on the fast path, or back on it. Without it the pod's packets take
// the TUN links. It takes some milliseconds: whenever a program is hooked, the kernel
// waits until nobody uses what was there before. The caller does not hold mu.
func (d *Device) hasten(p *pod) {
	d.pathMu.RLock()
	defer d.pathMu.RUnlock()
	p.fastMu.Lock()
	defer p.fastMu.Unlock()
	if d.path == nil || p.gone {
		return
	}
	if err := d.fasten(p); err != nil {
		d.cfg.Log.Warn("a pod has no fast path for IPv4: it goes through the TUN links", "pod", p.ID, "error", err)
	}
}

func (d *Device) fasten(p *pod) error {
	at := fastpath.Pod{Address: p.Address, Native: p.native, Behind: p.behind}
	var clatLink, ethLink int
	err := within(p.Space, func() error {
		eth, err := netlink.LinkByName(netstack.PodLink)
		if err != nil {
			return fmt.Errorf("find the pod's link %s: %w", netstack.PodLink, err)
		}
		inner, err := netlink.LinkByName(PodLink)
		if err != nil {
			return fmt.Errorf("find the pod's link %s: %w", PodLink, err)
		}
		ethLink, clatLink = eth.Attrs().Index, inner.Attrs().Index
		at.Link, at.PodMAC, at.MTU = eth.Attrs().ParentIndex, eth.Attrs().HardwareAddr, eth.Attrs().MTU
		return acceptOtherWays()
	})
	if err != nil {
		return err
	}
	err = within(d.cfg.Machine, func() error {
		host, err := netlink.LinkByIndex(at.Link)
		if err != nil {
			return fmt.Errorf("find the machine's end of the pod's link: %w", err)
		}
		at.MachineMAC, at.MTU = host.Attrs().HardwareAddr, min(host.Attrs().MTU, at.MTU)
		if len(at.MachineMAC) != 6 || len(at.PodMAC) != 6 {
			return fmt.Errorf("link %s is not an Ethernet link", host.Attrs().Name)
		}
		if p.fast != nil && p.fast.Link != at.Link {
			if err := d.path.Remove(*p.fast); err != nil {
				return err
			}
		}
		return d.path.Add(at)
	})
	if err != nil {
		return err
	}
	moved := p.fast == nil || p.fast.Link != at.Link || p.fast.MTU != at.MTU
	p.fast = &at
	return within(p.Space, func() error {
		if hooked, err := d.path.Hooked(clatLink); err != nil || hooked && !moved {
			return err
		}
		return d.path.Inside(at, clatLink, ethLink)
	})
}

// acceptOtherWays lets a pod take IPv4 packets on its Ethernet link although it sends by
// the other: answers come there.
func acceptOtherWays() error {
	for _, link := range []string{"all", netstack.PodLink} { // the greater one counts
		if err := setSysctl(netstack.Sysctl{Key: "net/ipv4/conf/" + link + "/rp_filter", Value: "0"}); err != nil {
			return err
		}
	}
	return nil
}

// slow takes a pod that is removed off the fast path. The program at the machine's end of
// its link stays, and does nothing for a pod that it does not know.
func (d *Device) slow(p *pod) error {
	d.pathMu.RLock()
	defer d.pathMu.RUnlock()
	p.fastMu.Lock()
	defer p.fastMu.Unlock()
	p.gone = true
	if d.path == nil || p.fast == nil {
		return nil
	}
	return d.path.Remove(*p.fast)
}

// Fast returns how many packets have taken the fast path, and how it is hooked to links;
// hook is empty if there is none.
func (d *Device) Fast() (counts fastpath.Counts, hook string, err error) {
	d.pathMu.RLock()
	defer d.pathMu.RUnlock()
	if d.path == nil {
		return counts, "", nil
	}
	counts, err = d.path.Counts()
	return counts, d.path.Hook(), err
}

// Unlink takes away what an earlier process may have left in a pod that has no use for
// it any more, and at the machine's end of its link. space is the path of the pod's
// namespace, which may not exist.
func (d *Device) Unlink(space string) error {
	host := 0
	err := within(space, func() error {
		if eth, err := netlink.LinkByName(netstack.PodLink); err == nil {
			host = eth.Attrs().ParentIndex
		}
		return deleteLink(PodLink)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && host != 0 {
		err = within(d.cfg.Machine, func() error { return fastpath.Unhook(host) })
	}
	if err != nil {
		return fmt.Errorf("take a pod's IPv4 link away: %w", err)
	}
	return nil
}
