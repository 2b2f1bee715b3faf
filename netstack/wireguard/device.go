package wireguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// Device is a machine's WireGuard device.
type Device struct {
	cfg Config
	now func() time.Time

	mu      sync.Mutex // guards what follows
	backend backend    // nil while the device is off
	mtu     int
	wanted  map[Key]Peer
	since   map[Key]time.Time // when a peer was first wanted
	heard   map[Key]hearing
}

// hearing is what was last received from a peer.
type hearing struct {
	bytes uint64
	at    time.Time
}

// backend is a device of one kind. Its methods are called in the machine's namespace.
type backend interface {
	// configure sets the device's own key and port, and changes peers as listed.
	configure(private Key, port uint16, changes []change) error
	peers() ([]state, error)
	// alive is false once the device has gone.
	alive() bool
	// close lets go of the device; remove takes it away.
	close() error
	remove() error
	kind() string
}

// New makes a Device. It changes nothing.
func New(cfg Config) (*Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure WireGuard: %w", err)
	}
	return &Device{cfg: cfg, now: time.Now, wanted: map[Key]Peer{}, since: map[Key]time.Time{}, heard: map[Key]hearing{}}, nil
}

// String names the task.
func (d *Device) String() string { return "wireguard " + d.cfg.Link }

// Run notes which peers are heard until the context ends, and then lets go of the device.
func (d *Device) Run(ctx context.Context) error {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.close()
		case <-tick.C:
			if _, err := d.Tunnels(); err != nil {
				d.cfg.Log.Debug("look at the tunnels", "error", err)
			}
		}
	}
}

func (d *Device) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		return nil
	}
	b := d.backend
	d.backend = nil
	return b.close()
}

// Ensure makes the device be there, or not, and returns what others must know of it.
// Idempotent.
func (d *Device) Ensure(on bool) (Facts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var facts Facts
	err := d.within(func() (err error) {
		if !on {
			return d.off()
		}
		if err := d.on(); err != nil {
			return err
		}
		facts = d.facts()
		return nil
	})
	if err != nil {
		return facts, fmt.Errorf("set up WireGuard: %w", err)
	}
	return facts, nil
}

func (d *Device) within(f func() error) error {
	if d.cfg.Machine == "" {
		return f()
	}
	fd, err := linux.OpenNamespace(d.cfg.Machine)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// off takes away the device, also one that an earlier process left. The caller holds mu.
func (d *Device) off() error {
	if b := d.backend; b != nil {
		d.backend = nil
		clear(d.wanted)
		return b.remove()
	}
	return removeLink(d.cfg.Link)
}

// on makes the device, unless it is there, and sets up its link. The caller holds mu.
func (d *Device) on() error {
	if d.backend != nil && !d.backend.alive() {
		d.cfg.Log.Warn("the WireGuard device has gone; it is made anew", "link", d.cfg.Link)
		_ = d.backend.close()
		d.backend = nil
	}
	underlay, err := d.cfg.Underlay()
	if err != nil {
		return fmt.Errorf("find the MTU of the links that tunnels go over: %w", err)
	}
	if underlay < underlayGood {
		return fmt.Errorf("the machine's links carry packets of %d bytes, and tunnels need %d: raise their MTU", underlay, underlayGood)
	}
	d.mtu = underlay - overhead
	if d.backend == nil {
		if err := d.open(); err != nil {
			return err
		}
	}
	return setUpLink(d.cfg.Link, d.mtu)
}

// open makes the device with the peers that are wanted. The caller holds mu.
func (d *Device) open() (err error) {
	if !d.cfg.InProcess {
		d.backend, err = openKernel(d.cfg.Link)
	}
	if d.cfg.InProcess || errors.Is(err, errNoKernel) {
		d.backend, err = openProcess(d.cfg, d.mtu)
	}
	if err != nil {
		return err
	}
	d.cfg.Log.Info("WireGuard is set up", "device", d.backend.kind(), "link", d.cfg.Link, "port", d.cfg.Port, "mtu", d.mtu)
	have, err := d.backend.peers()
	if err != nil {
		return err
	}
	return d.configure(plan(have, nil, d.wanted, d.now()))
}

func (d *Device) configure(changes []change) error {
	err := d.backend.configure(d.cfg.Private, d.cfg.Port, changes)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port %d is in use; find by what with `ss -lnup 'sport = :%d'`: %w", d.cfg.Port, d.cfg.Port, err)
	}
	return err
}

// Facts returns what others must know of the device; on is false while it is off.
func (d *Device) Facts() (facts Facts, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		return facts, false
	}
	return d.facts(), true
}

func (d *Device) facts() Facts {
	return Facts{Public: d.cfg.Private.PublicKey(), Port: d.cfg.Port, Kind: d.backend.kind(), MTU: d.mtu}
}

// Purge takes away the device that a process has left on this machine.
func Purge() error {
	if err := removeLink(netstack.TunnelLink); err != nil {
		return fmt.Errorf("purge WireGuard: %w", err)
	}
	return nil
}

// SetPeers makes the device's peers those listed, and no others. Idempotent. It is an
// error to list any while the device is off.
func (d *Device) SetPeers(peers []Peer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		if len(peers) == 0 {
			return nil
		}
		return errors.New("set WireGuard's peers: the device is not set up")
	}
	wanted := make(map[Key]Peer, len(peers))
	for _, p := range peers {
		wanted[p.Public] = p
		if _, known := d.since[p.Public]; !known {
			d.since[p.Public] = d.now()
		}
	}
	for key := range d.since {
		if _, ok := wanted[key]; !ok {
			delete(d.since, key)
			delete(d.heard, key)
		}
	}
	err := d.within(func() error {
		have, err := d.backend.peers()
		if err != nil {
			return err
		}
		return d.configure(plan(have, d.wanted, wanted, d.now()))
	})
	if err != nil {
		return fmt.Errorf("set WireGuard's peers: %w", err)
	}
	d.wanted = wanted
	return nil
}

// Repair puts back what others have taken away of a device that is on.
func (d *Device) Repair() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		return nil
	}
	if err := d.within(d.on); err != nil {
		return fmt.Errorf("repair WireGuard: %w", err)
	}
	return nil
}

// Tunnels tells how each tunnel is, sorted by machine; none while the device is off.
func (d *Device) Tunnels() (list []Tunnel, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backend == nil {
		return nil, nil
	}
	var have []state
	err = d.within(func() (err error) {
		have, err = d.backend.peers()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read WireGuard's peers: %w", err)
	}
	for _, s := range have {
		p, ok := d.wanted[s.Public]
		if !ok {
			continue
		}
		h := d.heard[s.Public]
		if s.Received != h.bytes {
			h = hearing{s.Received, d.now()}
			if s.Received == 0 { // the device was made anew
				h.at = time.Time{}
			}
			d.heard[s.Public] = h
		}
		list = append(list, Tunnel{
			Peer: p, Seen: s.Endpoint, Since: d.since[s.Public], Handshake: s.Handshake, Last: h.at, Sent: s.Sent, Received: s.Received,
		})
	}
	sortTunnels(list)
	return list, nil
}

// setUpLink gives the device's link its MTU, and puts it up.
func setUpLink(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	for key, value := range map[string]string{"disable_ipv6": "0", "accept_ra": "0", "addr_gen_mode": "1"} {
		path := "/proc/sys/net/ipv6/conf/" + name + "/" + key
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s of link %s: %w", key, name, err)
		}
	}
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set the MTU of link %s to %d: %w", name, mtu, err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set link %s up: %w", name, err)
		}
	}
	return nil
}

// removeLink deletes a link, if it is there.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("delete link %s: %w", name, err)
	}
	return nil
}
