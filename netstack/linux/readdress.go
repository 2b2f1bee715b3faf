package linux

import (
	"context"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// WatchAddresses calls changed whenever the machine got or lost an address that others
// could reach, until ctx ends. One call may stand for several changes.
func (n *Network) WatchAddresses(ctx context.Context, changed func()) error {
	const groups = 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1)
	w := watch{unix.NETLINK_ROUTE, groups, reachable}
	f, err := n.host.listen(w)
	if err != nil {
		return err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	pending := make(chan struct{}, 1) // one pending change stands for any number
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.read(ctx, f, pending) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-pending:
				changed()
			}
		}
	})
	return g.Wait()
}

// reachable tells the messages about addresses of global scope from those about a link's
// own, which each new pod brings.
func reachable(kind uint16, payload []byte) bool {
	// struct ifaddrmsg begins: family, length of the prefix, flags, scope.
	return (kind == unix.RTM_NEWADDR || kind == unix.RTM_DELADDR) &&
		len(payload) >= unix.SizeofIfAddrmsg && payload[3] == unix.RT_SCOPE_UNIVERSE && !isLease(kind, payload)
}
