package clat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/fastpath"
	"starling.dev/starling/netstack/xlat"
)

// Device is the machine's way to the IPv4 internet for its pods: a task that runs until
// its context ends.
type Device struct {
	cfg     Config
	ready   chan struct{}
	workers chan *worker // as many as there are; a link takes one while it has packets
	errors  *limiter
	counts  counters
	// view is what the packets' ways depend on. Readers load it once per packet;
	// writers hold mu.
	view atomic.Pointer[view]

	mu      sync.Mutex
	group   *errgroup.Group // nil unless running
	ctx     context.Context // of the group
	machine *tun
	pods    map[string]*pod
	leads   map[netip.Addr]netip.Addr // what is led to, by IPv6 address; see Lead

	// pathMu guards path: it is held for reading while pods are put on and off. Lock order:
	// mu, pathMu, a pod's fastMu. Only the last two are held while the kernel takes its time.
	pathMu sync.RWMutex
	path   *fastpath.Path // nil where the kernel has no fast path, and unless running
}

// pod is a pod that is served.
type pod struct {
	Pod
	native netip.Addr // its address in the machine's range as an IPv6 host
	behind netip.Addr // the same behind its CLAT
	clat   *xlat.Translator
	link   *tun
	lost   bool // the link is gone; guarded by the Device's mu
	mtu    int  // what its Ethernet link carries; guarded by the Device's mu

	fastMu sync.Mutex    // guards what follows
	fast   *fastpath.Pod // as it is on the fast path; nil if it is not
	gone   bool          // the pod was removed
}

// view is an immutable picture of who is there.
type view struct {
	nat64   *xlat.Translator
	machine *tun
	behind  map[netip.Addr]*pod // by the pod's address behind its CLAT
}

// New makes a Device. It starts nothing and changes nothing.
func New(cfg Config) (*Device, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure NAT64: %w", err)
	}
	n := runtime.GOMAXPROCS(0)
	d := &Device{
		cfg: cfg, ready: make(chan struct{}), workers: make(chan *worker, n),
		errors: newLimiter(time.Now), pods: make(map[string]*pod),
	}
	for i := range n {
		d.workers <- newWorker(uint16(i * 65536 / n))
	}
	return d, nil
}

// Ready is closed once the machine's link carries packets.
func (d *Device) Ready() <-chan struct{} { return d.ready }

// String names the task.
func (d *Device) String() string { return "nat64 " + d.cfg.Link }

// Run serves the pods until ctx ends, or until a link fails. It may be called once.
func (d *Device) Run(ctx context.Context) error {
	machine, err := openMachineLink(d.cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("set up NAT64 on this machine: %w", err), d.closeLinks())
	}
	group, ctx := errgroup.WithContext(ctx)
	d.mu.Lock()
	d.machine, d.group, d.ctx = machine, group, ctx
	err = d.publish()
	d.openFast()
	group.Go(func() error { return d.serve(machine) })
	for _, p := range d.pods {
		d.start(p)
	}
	early := slices.Collect(maps.Values(d.pods))
	d.mu.Unlock()
	for _, p := range early {
		d.hasten(p)
	}
	stop := context.AfterFunc(ctx, d.stopLinks)
	defer stop()
	if err == nil {
		close(d.ready)
	} else {
		d.stopLinks()
	}
	err = errors.Join(err, group.Wait())
	return errors.Join(err, d.closeLinks())
}

// serve reads the machine's link until it is stopped.
func (d *Device) serve(machine *tun) error {
	err := d.readLink(machine, (*lane).fromMachine)
	if d.ctx.Err() != nil {
		return nil
	}
	return err
}

// start serves a pod's link. The caller holds mu.
func (d *Device) start(p *pod) {
	d.group.Go(func() error {
		err := d.readLink(p.link, func(l *lane, b []byte) { l.fromPod(p, b) })
		// A pod's link fails when its namespace goes: the pod's end, not ours.
		if err != nil && d.ctx.Err() == nil {
			d.lose(p, err)
		}
		return nil
	})
}

// lose notes that a pod's link is gone, so that it is made anew when the pod is added
// again.
func (d *Device) lose(p *pod, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods[p.ID] == p {
		p.lost = true
		d.cfg.Log.Warn("a pod has lost its way to IPv4", "pod", p.ID, "error", err)
	}
}

func (d *Device) stopLinks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.machine.stop()
	for _, p := range d.pods {
		p.link.stop()
	}
}

// closeLinks lets go of all links; they stay, with their addresses and routes, and the
// fast path goes on.
func (d *Device) closeLinks() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.group = nil
	var err error
	if d.machine != nil {
		err = d.machine.close()
	}
	err = errors.Join(err, d.closeFast())
	for _, p := range d.pods {
		err = errors.Join(err, p.link.close())
	}
	clear(d.pods)
	return err
}

// Repair puts back what others have taken away: addresses, routes and rules. It is
// idempotent, and does nothing unless the Device runs.
func (d *Device) Repair() error {
	served, err := d.repair()
	for _, p := range served {
		d.hasten(p)
	}
	if err != nil {
		return fmt.Errorf("repair NAT64: %w", err)
	}
	return nil
}

// repair puts back all but the fast path, and returns the pods that are served.
func (d *Device) repair() (served []*pod, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.group == nil {
		return nil, nil
	}
	err = within(d.cfg.Machine, func() error { return errors.Join(setUpMachine(d.cfg), d.rehook()) })
	for _, p := range d.pods {
		if !p.lost {
			err = errors.Join(err, within(p.Space, func() error {
				p.mtu = ethernetMTU(d.cfg.MTU)
				return setUpPod(d.cfg.MTU)
			}))
			served = append(served, p)
		}
	}
	return served, errors.Join(err, d.publish())
}

// Add gives a pod its link and its way to the IPv4 internet. It may be called before or
// while the Device runs, and is idempotent: a pod that is served is left alone, and what
// an earlier process left in the pod is taken over.
func (d *Device) Add(pod Pod) error {
	if err := pod.validate(); err != nil {
		return fmt.Errorf("connect a pod to IPv4: %w", err)
	}
	p, err := d.add(pod)
	if err != nil {
		return err
	}
	if p != nil {
		d.hasten(p)
	}
	return nil
}

// add is Add but for the fast path. It returns the pod if that is due.
func (d *Device) add(spec Pod) (*pod, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.pods[spec.ID]; old != nil && old.Pod == spec && !old.lost {
		return nil, nil
	}
	if err := d.remove(spec.ID); err != nil {
		return nil, err
	}
	p, err := d.admit(spec)
	if err != nil {
		return nil, fmt.Errorf("connect pod %s to IPv4: %w", spec.ID, err)
	}
	d.pods[spec.ID] = p
	if err := d.publish(); err != nil {
		return nil, errors.Join(err, d.remove(spec.ID))
	}
	if d.group == nil {
		return nil, nil
	}
	d.start(p)
	return p, nil
}

// admit chooses a pod's addresses and opens its link. The caller holds mu.
func (d *Device) admit(spec Pod) (*pod, error) {
	used := make(map[netip.Addr]bool, len(d.pods))
	for _, p := range d.pods {
		used[p.native] = true
	}
	native := netstack.PickIPv4(d.cfg.natives(), spec.ID, func(a netip.Addr) bool { return used[a] })
	if !native.IsValid() {
		return nil, fmt.Errorf("all addresses of %v are in use; configure a larger range", d.cfg.IPv4)
	}
	p := &pod{Pod: spec, native: native, behind: d.cfg.behind(native)}
	var err error
	if p.clat, err = xlat.New(d.cfg.clat(p)); err != nil {
		return nil, err
	}
	p.link, p.mtu, err = openPodLink(spec, d.cfg.MTU)
	return p, err
}

// Remove takes a pod's link away. It is idempotent.
func (d *Device) Remove(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.remove(id); err != nil {
		return err
	}
	return d.publish()
}

func (d *Device) remove(id string) error {
	p := d.pods[id]
	if p == nil {
		return nil
	}
	delete(d.pods, id)
	if err := d.slow(p); err != nil {
		d.cfg.Log.Warn("take a pod off the fast path", "pod", id, "error", err)
	}
	p.link.stop()
	if p.lost {
		return p.link.close()
	}
	if err := p.link.remove(); err != nil {
		return fmt.Errorf("take pod %s's IPv4 link away: %w", id, err)
	}
	return nil
}

// Addresses returns a pod's addresses in the machine's range: as an IPv6 host, and behind
// its CLAT. There are none for a pod that is not served.
func (d *Device) Addresses(id string) []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pods[id]; p != nil {
		return []netip.Addr{p.native, p.behind}
	}
	return nil
}

// publish makes the view for the present pods. The caller holds mu.
func (d *Device) publish() error {
	v := &view{machine: d.machine, behind: make(map[netip.Addr]*pod, len(d.pods))}
	for _, p := range d.pods {
		v.behind[p.behind] = p
	}
	var err error
	if v.nat64, err = xlat.New(d.cfg.nat64(d.pods, d.leads)); err != nil {
		return fmt.Errorf("set up NAT64 for the present pods: %w", err)
	}
	d.view.Store(v)
	return nil
}
