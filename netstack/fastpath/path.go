package fastpath

import (
	"bytes"
	_ "embed" // the programs
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

//go:embed nat64.o
var object []byte

// wellKnown is the prefix that must not stand for addresses of private use (RFC 6052).
var wellKnown = netip.MustParsePrefix("64:ff9b::/96")

// Config says how packets are translated. The first four fields are required.
type Config struct {
	Prefix netip.Prefix // the NAT64 prefix, a /96
	IPv4   netip.Prefix // the pods' range behind this machine
	Inside netip.Addr   // the IPv4 address that every pod sees as its own
	MTU    int          // of the NAT64 link and, but for 20 bytes, of pods' CLAT links
	// Clsact is for a kernel without tcx, and for trying what that would be like.
	Clsact bool
	// Header is the length of the link-layer header of packets at the NAT64 and CLAT
	// links: none on a TUN. See Try.
	Header int
}

// Pod is a pod whose packets are translated.
type Pod struct {
	Address netip.Addr // its IPv6 address
	// Native and Behind are its IPv4 addresses, as an IPv6 host and behind its CLAT.
	Native, Behind netip.Addr
	Link, MTU      int // index of the machine's end of its link, and what that carries
	// MachineMAC and PodMAC are the link-layer addresses of the link's ends.
	MachineMAC, PodMAC net.HardwareAddr
}

// Path is the programs and maps of one machine.
type Path struct {
	cfg     Config
	spec    *ebpf.CollectionSpec
	hook    hook
	objects objects
}

// objects are the machine's part of the object.
type objects struct {
	Out       *ebpf.Program `ebpf:"starling_out"`
	In        *ebpf.Program `ebpf:"starling_in"`
	ByLink    *ebpf.Map     `ebpf:"by_link"`
	ByAddress *ebpf.Map     `ebpf:"by_address"`
	Counts    *ebpf.Map     `ebpf:"counts"`
}

// Load puts the programs into the kernel, in the machine's namespace. They are hooked
// nowhere yet, but share the maps of those that an earlier process has hooked to nat64,
// the machine's NAT64 link (0: there is none). An error is the reason why this kernel can't
// have them.
func Load(cfg Config, nat64 int) (*Path, error) {
	if err := rlimit.RemoveMemlock(); err != nil { // for kernels before 5.11
		return nil, fmt.Errorf("allow memory for eBPF: %w", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the fast path's object: %w", err)
	}
	p := &Path{cfg: cfg, spec: spec, hook: findHook()}
	if cfg.Clsact {
		p.hook = clsact{}
	}
	if err := p.configure(nat64); err != nil {
		return nil, err
	}
	earlier := p.inherit(nat64)
	defer closeMaps(earlier)
	if err := spec.Copy().LoadAndAssign(&p.objects, &ebpf.CollectionOptions{MapReplacements: earlier}); err != nil {
		return nil, fmt.Errorf("load the fast path: %w", err)
	}
	return p, nil
}

// configure sets the constants that all programs share.
func (p *Path) configure(nat64 int) error {
	prefix := p.cfg.Prefix.Masked()
	words := addressWords(prefix.Addr())
	base := p.cfg.IPv4.Masked().Addr()
	constants := map[string]any{
		"prefix":     [3]uint32(words[:3]),
		"well_known": uint32(0),
		"range":      ipv4Word(base),
		"range_mask": binary.NativeEndian.Uint32(net.CIDRMask(p.cfg.IPv4.Bits(), 32)),
		"inside":     ipv4Word(p.cfg.Inside),
		"mtu":        uint32(p.cfg.MTU),
		"nat64_link": uint32(nat64),
		"tun_header": uint32(p.cfg.Header),
	}
	if prefix == wellKnown {
		constants["well_known"] = uint32(1)
	}
	return setConstants(p.spec, constants)
}

func setConstants(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		v := spec.Variables[name]
		if v == nil {
			return fmt.Errorf("the fast path has no constant %s", name)
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("set constant %s of the fast path: %w", name, err)
		}
	}
	return nil
}

// Close lets go of programs and maps. What is hooked goes on.
func (p *Path) Close() error {
	return errors.Join(p.objects.Out.Close(), p.objects.In.Close(), p.objects.ByLink.Close(),
		p.objects.ByAddress.Close(), p.objects.Counts.Close())
}

// Hook tells how the programs are hooked to links: "tcx" or "clsact".
func (p *Path) Hook() string { return p.hook.String() }

// Machine hooks the way back to the machine's NAT64 link, in the machine's namespace. It
// is idempotent.
func (p *Path) Machine(link int) error {
	if err := p.hook.attach(link, egress, p.objects.In); err != nil {
		return fmt.Errorf("hook the fast path to NAT64: %w", err)
	}
	return nil
}

// Add serves a pod, in the machine's namespace. It is idempotent.
func (p *Path) Add(pod Pod) error {
	if err := p.Known(pod); err != nil {
		return err
	}
	if err := p.hook.attach(pod.Link, ingress, p.objects.Out); err != nil {
		return fmt.Errorf("hook the fast path to a pod's link: %w", err)
	}
	return nil
}

// Known enters a pod into the maps, without hooking its link.
func (p *Path) Known(pod Pod) error {
	value := valueOf(pod)
	// What comes back has its way before anything is sent.
	for _, a := range []netip.Addr{pod.Native, pod.Behind} {
		if err := p.objects.ByAddress.Put(ipv4Word(a), &value); err != nil {
			return fmt.Errorf("add %v to the fast path: %w", a, err)
		}
	}
	if err := p.objects.ByLink.Put(uint32(pod.Link), &value); err != nil {
		return fmt.Errorf("add a pod to the fast path: %w", err)
	}
	return nil
}

// Remove serves a pod no longer. The program at its link, if that is still there, leaves
// packets alone from now on; [Unhook] takes it away. It is idempotent.
func (p *Path) Remove(pod Pod) (err error) {
	for _, a := range []netip.Addr{pod.Native, pod.Behind} {
		err = errors.Join(err, absent(p.objects.ByAddress.Delete(ipv4Word(a))))
	}
	err = errors.Join(err, absent(p.objects.ByLink.Delete(uint32(pod.Link))))
	if err != nil {
		return fmt.Errorf("take a pod off the fast path: %w", err)
	}
	return nil
}

// Unhook takes the programs of whatever process off the machine's end of a pod's link,
// in the machine's namespace. The link may be gone.
func Unhook(link int) error {
	if err := errors.Join(tcx{}.detach(link, ingress, outName), clsact{}.detach(link, ingress, outName)); err != nil {
		return fmt.Errorf("unhook the fast path from a pod's link: %w", err)
	}
	return nil
}

func absent(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// Inside hooks a pod's CLAT link, in the pod's namespace, so that what the machine's
// programs take is sent to its Ethernet link.
func (p *Path) Inside(pod Pod, clatLink, ethLink int) error {
	program, err := p.loadInside(map[string]any{
		"eth_link": uint32(ethLink), "eth_mtu": uint32(pod.MTU), "eth_machine": [6]byte(pod.MachineMAC), "eth_pod": [6]byte(pod.PodMAC),
	})
	if err != nil {
		return err
	}
	if err := p.hook.attach(clatLink, egress, program); err != nil {
		return errors.Join(fmt.Errorf("hook the fast path to a pod's CLAT: %w", err), program.Close())
	}
	return program.Close()
}

// loadInside loads the program of one pod's CLAT link, with its constants.
func (p *Path) loadInside(constants map[string]any) (*ebpf.Program, error) {
	spec := p.spec.Copy()
	if err := setConstants(spec, constants); err != nil {
		return nil, err
	}
	var program struct {
		Out *ebpf.Program `ebpf:"starling_clat"`
	}
	if err := spec.LoadAndAssign(&program, nil); err != nil {
		return nil, fmt.Errorf("load the fast path of a pod: %w", err)
	}
	return program.Out, nil
}

// Hooked tells whether a program of ours is hooked where packets leave by a link.
func (p *Path) Hooked(link int) (bool, error) {
	programs, err := p.hook.ours(link, egress)
	closeAll(programs)
	return len(programs) > 0, err
}

// value is struct pod of nat64.c.
type value struct {
	Address            [4]uint32
	Native, Behind     uint32
	Link, MTU          uint32
	MachineMAC, PodMAC [6]byte
}

func valueOf(p Pod) value {
	return value{
		Address: addressWords(p.Address), Native: ipv4Word(p.Native), Behind: ipv4Word(p.Behind),
		Link: uint32(p.Link), MTU: uint32(p.MTU), MachineMAC: [6]byte(p.MachineMAC), PodMAC: [6]byte(p.PodMAC),
	}
}

// ipv4Word is an IPv4 address as it lies in memory.
func ipv4Word(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func addressWords(a netip.Addr) (words [4]uint32) {
	b := a.As16()
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return words
}
