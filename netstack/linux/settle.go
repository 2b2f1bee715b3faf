package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// settleTimeout bounds the wait for the kernel's deferred work, which takes well below
// a millisecond.
const settleTimeout = 5 * time.Second

// Settle waits until the link of the namespace open at fd is up, and, unless a is the
// zero Addr, until packets are taken there for the IPv6 address a.
func Settle(ctx context.Context, fd int, link string, a netip.Addr) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	s, err := newSpace(own, new(atomic.Int64))
	if err != nil {
		return err
	}
	defer s.close()
	return s.settle(ctx, link, a)
}

// settle waits until the link sends and the namespace takes packets for the address.
// The kernel leaves the last bit of both to deferred jobs: of a pair of links, the end
// that was set up first drops what it should send until it has noticed the other; and
// an IPv6 address is entered a little later into the local table, by which the kernel
// recognises what is for itself. What is lost then costs a connection a second, after
// which it tries again.
func (s *space) settle(ctx context.Context, link string, a netip.Addr) error {
	if ok, err := s.settled(link, a); ok || err != nil {
		return err
	}
	const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)
	changes, err := s.listen(watch{unix.NETLINK_ROUTE, groups, anyChange})
	if err != nil {
		return err
	}
	defer changes.Close()
	if err := changes.SetReadDeadline(time.Now().Add(settleTimeout)); err != nil {
		return fmt.Errorf("wait for link %s: %w", link, err)
	}
	defer context.AfterFunc(ctx, func() { changes.Close() })()
	buf := make([]byte, 16<<10)
	for {
		if ok, err := s.settled(link, a); ok || err != nil {
			return err
		}
		if _, err := changes.Read(buf); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("wait for address %s on link %s: %w", a, link, errors.Join(ctx.Err(), err))
		}
	}
}

func (s *space) settled(link string, a netip.Addr) (bool, error) {
	l, err := s.link(link)
	if err != nil || l == nil || l.Attrs().OperState != netlink.OperUp {
		return false, err
	}
	if !a.IsValid() {
		return true, nil
	}
	return s.isLocal(a)
}

func (s *space) isLocal(a netip.Addr) (bool, error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_LOCAL}
	list, err := s.nl.RouteListFiltered(netlink.FAMILY_V6, filter, netlink.RT_FILTER_TABLE)
	if err != nil {
		return false, fmt.Errorf("list local addresses: %w", err)
	}
	return slices.ContainsFunc(list, func(r netlink.Route) bool {
		p, ok := prefixOf(r.Dst)
		return ok && p.IsSingleIP() && p.Addr() == a
	}), nil
}
