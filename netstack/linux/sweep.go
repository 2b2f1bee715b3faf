package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
)

// Sweep removes the networks of pods that keep does not know, which an earlier run
// left, and returns the IDs of those pods. It is for the start of a peer: a pod that
// is being attached meanwhile must be known to keep.
func (n *Network) Sweep(ctx context.Context, keep func(podID string) bool) ([]string, error) {
	kept := map[string]bool{}
	gone := map[string]bool{}
	sort := func(id string) {
		if keep(id) {
			kept[netstack.HostLink(n.cfg.Scope, id)] = true
		} else {
			gone[id] = true
		}
	}
	names, err := namespacesOf(n.cfg.Namespaces, n.cfg.Scope)
	if err != nil {
		return nil, err
	}
	for id := range names {
		sort(id)
	}
	links, err := n.host.links()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if id, ok := netstack.PodOfName(n.cfg.Scope, l.Alias); ok {
			sort(id)
		}
	}
	errs := []error{n.sweepHalfMade(links, kept)}
	var removed []string
	for id := range gone {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		if err := n.Detach(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		removed = append(removed, id)
	}
	return removed, errors.Join(errs...)
}

// sweepHalfMade removes links of ours that never got their alias, because the peer was
// killed just then.
func (n *Network) sweepHalfMade(links map[int]*netlink.LinkAttrs, kept map[string]bool) error {
	var errs []error
	for i, l := range links {
		if netstack.IsHostLink(l.Name) && l.Alias == "" && !kept[l.Name] {
			errs = append(errs, n.host.deleteLink(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: i, Name: l.Name}}))
		}
	}
	return errors.Join(errs...)
}

// Purge removes everything of ours from the machine, for a machine that leaves the
// cluster. Forwarding stays as it is: others may have come to depend on it.
func (n *Network) Purge(ctx context.Context) error {
	if _, err := n.Sweep(ctx, func(string) bool { return false }); err != nil {
		return fmt.Errorf("purge the network: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	state, err := n.observe()
	if err != nil {
		return fmt.Errorf("purge the network: %w", err)
	}
	n.plan, n.mtu = nil, 0
	err = errors.Join(
		n.host.syncRoutes(state.routes, nil, state.byName),
		n.host.syncAddresses(state.addresses, nil, n.oursOnMachine, state.byName),
		n.host.deleteTable(),
	)
	if err != nil {
		return fmt.Errorf("purge the network: %w", err)
	}
	return nil
}

// RemovePodNamespaces removes all pods' namespaces of a scope, for a lab that removes
// machines from outside. Their links go with the machine's namespace.
func RemovePodNamespaces(dir, scope string) error {
	names, err := namespacesOf(dir, scope)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range names {
		errs = append(errs, RemoveNamespace(path))
	}
	return errors.Join(errs...)
}

// namespacesOf finds the pods' namespaces of a scope by their names: paths by pod ID.
func namespacesOf(dir, scope string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	found := map[string]string{}
	for _, e := range entries {
		if id, ok := netstack.PodOfName(scope, e.Name()); ok {
			found[id] = filepath.Join(dir, e.Name())
		}
	}
	return found, nil
}
