package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// How soon after a change the state is compared, and how often at most. The delay lets
// a burst end first (a flush is many messages).
const (
	repairDelay = 100 * time.Millisecond
	repairPause = time.Second
)

// Run repairs what others change of ours, whenever the kernel reports a change, until
// ctx ends. Nothing is done while nothing changes.
func (n *Network) Run(ctx context.Context) error {
	const routing = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
		1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)
	const tables = 1 << (unix.NFNLGRP_NFTABLES - 1)

	changed := make(chan struct{}, 1) // one pending change stands for any number
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range []watch{{unix.NETLINK_ROUTE, routing, concerns}, {unix.NETLINK_NETFILTER, tables, foreignTransaction}} {
		f, err := n.host.listen(w)
		if err != nil {
			return err
		}
		defer f.Close()
		stop := context.AfterFunc(ctx, func() { f.Close() })
		defer stop()
		g.Go(func() error { return w.read(ctx, f, changed) })
	}
	g.Go(func() error { return n.repairOn(ctx, changed) })
	if n.cfg.Mode == Lan {
		if err := n.advertise(ctx, g); err != nil {
			return err
		}
	}
	return g.Wait()
}

// watch is a group of the kernel's notifications.
type watch struct {
	family  int
	groups  uint32
	matters func(kind uint16, payload []byte) bool
}

func (s *space) listen(w watch) (*os.File, error) {
	var fd int
	err := Within(s.fd, func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, w.family)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: w.groups})
	})
	if err != nil {
		return nil, fmt.Errorf("listen for changes of the network: %w", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// read signals each batch of notifications that holds one that matters. When the
// kernel had to drop some (ENOBUFS), that is a change too.
func (w watch) read(ctx context.Context, f *os.File, changed chan<- struct{}) error {
	buf := make([]byte, 64<<10)
	for {
		size, err := f.Read(buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("read changes of the network: %w", err)
		}
		if err != nil || w.anyMatters(buf[:size]) {
			signal(changed)
		}
	}
}

func (w watch) anyMatters(b []byte) bool {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false
		}
		if w.matters(binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:size]) {
			return true
		}
		b = b[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
	}
	return false
}

func anyChange(uint16, []byte) bool { return true }

// foreignTransaction tells transactions of other processes: the kernel ends each with a
// message that names the thread which made it. Our own need no repair, and services of
// ours may change often.
func foreignTransaction(kind uint16, payload []byte) bool {
	const newGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN
	if kind != newGeneration {
		return false
	}
	attrs, err := nl.ParseRouteAttr(payload[min(nl.SizeofNfgenmsg, len(payload)):])
	if err != nil {
		return true
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.NFTA_GEN_PROC_PID && len(a.Value) >= 4 {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", binary.BigEndian.Uint32(a.Value)))
			return err != nil
		}
	}
	return true
}

// concerns tells what could take something of ours away, or could move an uplink.
func concerns(kind uint16, payload []byte) bool {
	switch kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		// struct rtmsg begins: family, length of the destination, of the source, TOS,
		// table, protocol.
		if len(payload) < unix.SizeofRtMsg {
			return false
		}
		isDefault := payload[1] == 0
		return isDefault || (kind == unix.RTM_DELROUTE && payload[5] == netstack.RouteProtocol)
	}
	return !isLease(kind, payload)
}

// isLease tells the renewal of an address that is held for a short life (see Holder): one
// of full length that is not permanent.
func isLease(kind uint16, payload []byte) bool {
	// struct ifaddrmsg begins: family, length of the prefix, flags, scope.
	return kind == unix.RTM_NEWADDR && len(payload) >= unix.SizeofIfAddrmsg &&
		(payload[1] == 128 || (payload[0] == unix.AF_INET && payload[1] == 32)) && payload[2]&unix.IFA_F_PERMANENT == 0
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (n *Network) repairOn(ctx context.Context, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		if err := wait(ctx, repairDelay); err != nil {
			return err
		}
		n.repair(ctx)
		if err := wait(ctx, repairPause-repairDelay); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// repair applies the plans again: the machine's once there is one, and those of all
// pods that this process attached.
func (n *Network) repair(ctx context.Context) {
	before := n.writes.Load()
	if err := n.repairMachine(ctx); err != nil {
		n.log.Warn("repair the machine's network", "err", err)
	}
	for _, id := range n.attached() {
		if err := n.reattach(ctx, id); err != nil {
			n.log.Warn("repair a pod's network", "pod", id, "err", err)
		}
	}
	if n.cfg.Repair != nil {
		if err := n.cfg.Repair(); err != nil {
			n.log.Warn("repair what belongs to the network", "err", err)
		}
	}
	if after := n.writes.Load(); after != before {
		n.log.Info("repaired the network", "changes", after-before)
	}
}

func (n *Network) repairMachine(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plan == nil && n.mtu == 0 {
		return nil // nothing was asked for yet
	}
	return n.applyMachineLocked(ctx)
}

func (n *Network) attached() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := make([]string, 0, len(n.pods))
	for id := range n.pods {
		ids = append(ids, id)
	}
	return ids
}

// reattach applies a pod's plan again, unless the pod was detached meanwhile.
func (n *Network) reattach(ctx context.Context, id string) error {
	defer n.lockPod(id)()
	n.mu.Lock()
	pod, ok := n.pods[id]
	n.mu.Unlock()
	if !ok {
		return nil
	}
	return n.noteLinks(ctx, pod, true, func() error { _, err := n.attach(ctx, pod); return err })
}
