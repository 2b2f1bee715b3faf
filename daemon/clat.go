package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"starling.dev/starling/api"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/wireguard"
	"starling.dev/starling/peer"
)

// buildTranslator makes the machine's NAT64, which serves the pods that ask for it.
func (d *Daemon) buildTranslator(context.Context) (err error) {
	d.translator, err = clat.New(clat.Config{Log: d.cfg.Logger.With("part", "nat64")})
	if err != nil {
		return err
	}
	d.add(named(d.translator.String(), d.runTranslator))
	return nil
}

// runTranslator serves pods until the context ends. A machine that can't translate goes
// on without: pods that ask for it are told why.
func (d *Daemon) runTranslator(ctx context.Context) error {
	err := d.translator.Run(ctx)
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.Warn("this machine has no NAT64, so that pods with `ipv4: clat` can't run here", "error", err)
		d.untranslated.Store(&err)
	}
	return nil
}

// translationState prints what the NAT64 has done, one line per way.
func (n serverNetwork) translationState() (string, error) {
	if why := n.d.untranslated.Load(); why != nil {
		return fmt.Sprintf("nat64 is not there: %v\n", *why), nil
	}
	counts, hook, err := n.d.translator.Fast()
	if hook == "" {
		hook = "no hook: all of it by TUN"
	}
	text := fmt.Sprintf("nat64 in the kernel (%s): IPv6 %d out %d in, IPv4 %d out %d in", hook, counts.Out6, counts.In6, counts.Out4, counts.In4)
	if refused := counts.Spoofed + counts.Refused; refused > 0 {
		text += fmt.Sprintf(", refused %d", refused)
	}
	lost := n.d.translator.Lost()
	for _, reason := range slices.Sorted(maps.Keys(lost)) {
		text += fmt.Sprintf("\n  lost on the TUN links: %d %s", lost[reason], reason)
	}
	return text + "\n", err
}

// repairNetwork puts back what belongs to the network, but is not the Network's.
func (d *Daemon) repairNetwork() error {
	d.checkLAN(context.Background())
	return errors.Join(d.translator.Repair(), d.tunnels.Repair(), d.follower.repair(context.Background()))
}

// lookAtNetwork has the step of a pod's network look at the machine again: a link that the
// pod needs came or went.
func (d *Daemon) lookAtNetwork(ctx context.Context, podID string) {
	var key api.Key
	err := d.loop.Query(ctx, func(c *peer.Core) {
		if seen, ok := c.ByID(podID); ok {
			key = seen.Key
		}
	})
	if err == nil && key.Name != "" {
		d.loop.Post(ctx, peer.Again{Key: key, ID: podID, Step: "network"})
	}
}

// podIPv4 is the address by which IPv4 reaches a pod of this machine, if it has one of its own.
func (d *Daemon) podIPv4(podID, mode string) (a netip.Addr, own bool) {
	switch mode {
	case api.IPv4None:
		return a, false
	case api.IPv4CLAT:
		if list := d.translator.Addresses(podID); len(list) > 0 {
			a = list[0]
		}
		return a, true
	}
	return d.network.PodIPv4(podID), true
}

// leadIPv4 has the NAT64 take IPv4 for addresses that have none.
func (d *Daemon) leadIPv4(targets []netip.Addr) (map[netip.Addr]netip.Addr, error) {
	if why := d.untranslated.Load(); why != nil && len(targets) > 0 {
		return nil, *why
	}
	return d.translator.Lead(targets)
}

// podNetwork is the machine's network with a way to IPv4 for pods that have none of
// their own.
type podNetwork struct {
	*linux.Network
	translator *clat.Device
	// failed is why the machine has no NAT64; nil while it has one.
	failed  *atomic.Pointer[error]
	tunnels *wireguard.Device
	// guard is called before a pod is connected: what its namespace allows must be in
	// force before its first packet.
	guard func(context.Context) error
	// admitPorts is called before a pod is connected, and names a port that is in use.
	admitPorts func(loops.PodNetwork) error
	// relead is called when a pod has got an IPv4 address at the NAT64.
	relead func()
}

var _ loops.Network = podNetwork{}

// Attach connects the pod, and then gives it its translator or takes that away.
func (n podNetwork) Attach(ctx context.Context, pod loops.PodNetwork) (string, error) {
	if err := n.guard(ctx); err != nil {
		return "", fmt.Errorf("guard pod %s: %w", pod.Name, err)
	}
	if err := n.admitPorts(pod); err != nil {
		return "", err
	}
	if pod.IPv4 != api.IPv4CLAT {
		err := errors.Join(n.translator.Remove(pod.ID), n.translator.Unlink(n.NamespacePath(pod.ID)))
		if err != nil {
			return "", err
		}
		return n.Network.Attach(ctx, pod)
	}
	if err := n.failed.Load(); err != nil {
		return "", fmt.Errorf("pod %s asks for `ipv4: clat`: %w", pod.Name, *err)
	}
	path, err := n.Network.Attach(ctx, pod)
	if err != nil {
		return "", err
	}
	if err := n.translator.Add(clat.Pod{ID: pod.ID, Space: path, Address: pod.Address}); err != nil {
		return "", err
	}
	if len(pod.HostPorts) > 0 {
		n.relead()
	}
	return path, nil
}

// Detach takes the pod's translator away with the rest.
func (n podNetwork) Detach(ctx context.Context, podID string) error {
	return errors.Join(n.translator.Remove(podID), n.Network.Detach(ctx, podID))
}
