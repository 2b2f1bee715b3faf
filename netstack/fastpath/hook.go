package fastpath

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Names of our programs in the kernel, by which those of an earlier process are found.
const (
	outName    = "starling_out"
	namePrefix = "starling_"
)

// direction is where at a link a program stands.
type direction uint8

const (
	ingress direction = iota // what the machine receives
	egress                   // what the machine sends
)

// hook is a way to have programs run at a link. Links are those of the calling thread's
// namespace. All methods are idempotent and leave others' programs alone; a program that
// is replaced is so without a packet between.
type hook interface {
	attach(index int, d direction, p *ebpf.Program) error
	// detach takes the program of the name away; the link may be gone.
	detach(index int, d direction, name string) error
	// ours lists our programs that are there. The caller closes them.
	ours(index int, d direction) ([]*ebpf.Program, error)
	String() string
}

// findHook chooses what this kernel has.
func findHook() hook {
	_, err := link.QueryPrograms(link.QueryOptions{Target: 1, Attach: ebpf.AttachTCXIngress}) // 1 is lo, everywhere
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return clsact{}
	}
	return tcx{}
}

// tcx is the kernel's own list of programs at a link, since 6.6.
type tcx struct{}

func (tcx) String() string { return "tcx" }

func (tcx) at(d direction) ebpf.AttachType {
	if d == ingress {
		return ebpf.AttachTCXIngress
	}
	return ebpf.AttachTCXEgress
}

// ours lists the programs of ours that are there.
func (t tcx) ours(index int, d direction) (list []*ebpf.Program, err error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: t.at(d)})
	if err != nil {
		return nil, fmt.Errorf("list the programs at link %d: %w", index, err)
	}
	for _, f := range found.Programs {
		p, err := ebpf.NewProgramFromID(f.ID)
		if errors.Is(err, unix.ENOENT) {
			continue // gone meanwhile
		}
		if err != nil {
			return list, fmt.Errorf("open a program at link %d: %w", index, err)
		}
		if info, err := p.Info(); err == nil && strings.HasPrefix(info.Name, namePrefix) {
			list = append(list, p)
			continue
		}
		p.Close()
	}
	return list, nil
}

func closeAll(list []*ebpf.Program) {
	for _, p := range list {
		p.Close()
	}
}

func (t tcx) attach(index int, d direction, p *ebpf.Program) error {
	old, err := t.ours(index, d)
	if err != nil {
		return err
	}
	defer closeAll(old)
	same, err := isProgram(old, p)
	if err != nil || same {
		return err
	}
	opts := link.RawAttachProgramOptions{Target: index, Program: p, Attach: t.at(d)}
	if len(old) > 0 {
		opts.Anchor = link.ReplaceProgram(old[0])
	}
	if err := link.RawAttachProgram(opts); err != nil {
		return fmt.Errorf("attach to link %d by tcx: %w", index, err)
	}
	return nil
}

// isProgram reports whether p is all that there is.
func isProgram(list []*ebpf.Program, p *ebpf.Program) (bool, error) {
	if len(list) != 1 {
		return false, nil
	}
	a, err := list[0].Info()
	if err != nil {
		return false, fmt.Errorf("look at a program: %w", err)
	}
	b, err := p.Info()
	if err != nil {
		return false, fmt.Errorf("look at a program: %w", err)
	}
	x, _ := a.ID()
	y, _ := b.ID()
	return x == y, nil
}

func (t tcx) detach(index int, d direction, name string) error {
	old, err := t.ours(index, d)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeAll(old)
	for _, p := range old {
		info, err := p.Info()
		if err != nil || info.Name != name {
			continue
		}
		err = link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Program: p, Attach: t.at(d)})
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach from link %d: %w", index, err)
		}
	}
	return nil
}

// clsact is the queueing discipline that older kernels run programs in.
type clsact struct{}

// filterPriority is our filter's place at a clsact; no other may have it.
const filterPriority = 0x534c

func (clsact) String() string { return "clsact" }

func (clsact) parent(d direction) uint32 {
	if d == ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

func (c clsact) attach(index int, d direction, p *ebpf.Program) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add a clsact to link %d: %w", index, err)
	}
	info, err := p.Info()
	if err != nil {
		return fmt.Errorf("look at a program: %w", err)
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: c.parent(d), Handle: netlink.MakeHandle(0, 1), Protocol: unix.ETH_P_ALL, Priority: filterPriority,
		},
		Fd: p.FD(), Name: info.Name, DirectAction: true,
	}
	if err := netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("attach to link %d by clsact: %w", index, err)
	}
	return nil
}

// filter finds our filter.
func (c clsact) filter(index int, d direction) (*netlink.BpfFilter, error) {
	list, err := netlink.FilterList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}, c.parent(d))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return nil, nil // the link is gone, or has no clsact
	}
	if err != nil {
		return nil, fmt.Errorf("list the filters at link %d: %w", index, err)
	}
	for _, f := range list {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Priority == filterPriority && strings.HasPrefix(b.Name, namePrefix) {
			return b, nil
		}
	}
	return nil, nil
}

func (c clsact) ours(index int, d direction) ([]*ebpf.Program, error) {
	f, err := c.filter(index, d)
	if err != nil || f == nil {
		return nil, err
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(f.Id))
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open a program at link %d: %w", index, err)
	}
	return []*ebpf.Program{p}, nil
}

func (c clsact) detach(index int, d direction, name string) error {
	f, err := c.filter(index, d)
	if err != nil || f == nil || f.Name != name {
		return err
	}
	if err := netlink.FilterDel(f); err != nil {
		return fmt.Errorf("detach from link %d: %w", index, err)
	}
	return nil
}
