package linux

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
)

// Network is one machine's part of the cluster's network.
type Network struct {
	cfg    Config
	log    *slog.Logger
	host   *space // the machine's namespace
	seed   maphash.Seed
	writes atomic.Int64

	// podLocks keep one pod's Attach, Detach and repair apart; a pod uses the one that
	// its ID hashes to. Lock order: podLocks before mu.
	podLocks [128]sync.Mutex

	// mu guards what follows. It is held while the machine's plan is applied and
	// while an IPv4 address is chosen, never while a pod is set up.
	mu sync.Mutex
	// plan is the last one that Routes was given; nil before, when the routes to
	// other machines that an earlier run left are kept.
	plan *loops.RoutePlan
	mtu  int // the uplink's; 0 until the machine's plan was applied
	// links are the uplinks that mtu was taken from.
	links []string
	// ipv4 holds the address of each pod that has one; nil until it was read from
	// the kernel.
	ipv4 map[string]netip.Addr
	// pods are those that this process attached, for repairing.
	pods map[string]loops.PodNetwork
	// due are the addresses that have to be advertised so many times more, in mode lan.
	due map[netip.Addr]int
	// lacking are the pods with an interface whose link of the machine is missing.
	lacking map[string]bool
}

var _ loops.Network = (*Network)(nil)

// New opens the machine's network; it changes nothing. The caller calls Close at the
// end, which changes nothing either.
func New(cfg Config) (*Network, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the network: %w", err)
	}
	fd, err := OpenNamespace(cfg.Machine)
	if err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	n := &Network{cfg: cfg, log: cfg.Log, seed: maphash.MakeSeed(), pods: map[string]loops.PodNetwork{}, due: map[netip.Addr]int{}, lacking: map[string]bool{}}
	if n.host, err = newSpace(fd, &n.writes); err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	return n, nil
}

// Close gives back the sockets. Pods and routes stay.
func (n *Network) Close() error {
	n.host.close()
	return nil
}

// NamespacePath is where the pod's network namespace is or would be bound.
func (n *Network) NamespacePath(podID string) string {
	return filepath.Join(n.cfg.Namespaces, netstack.SpaceName(n.cfg.Scope, podID))
}

// Attach implements loops.Network.
func (n *Network) Attach(ctx context.Context, pod loops.PodNetwork) (string, error) {
	if err := checkPod(pod); err != nil {
		return "", fmt.Errorf("attach pod %s: %w", pod.Name, err)
	}
	defer n.lockPod(pod.ID)()
	var path string
	err := n.noteLinks(ctx, pod, false, func() (err error) { path, err = n.attach(ctx, pod); return err })
	if err != nil {
		return "", fmt.Errorf("attach pod %s (%s): %w", pod.Name, pod.Address, err)
	}
	return path, nil
}

func (n *Network) attach(ctx context.Context, pod loops.PodNetwork) (path string, err error) {
	path = n.NamespacePath(pod.ID)
	before := n.addressOf(pod.ID)
	found, missing := n.findLinks(pod.Interfaces)
	plan, err := n.preparePod(ctx, pod, found)
	if err != nil {
		return "", err
	}
	if before.IsValid() && before != pod.Address { // the LAN was renumbered
		if err := n.withdraw(nil, before); err != nil {
			return "", err
		}
	}
	if err := n.applyPod(ctx, path, pod, plan); err != nil {
		return "", err
	}
	return path, errors.Join(missing, n.announce(plan.Outside.Proxies))
}

func (n *Network) addressOf(podID string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[podID].Address
}

// lockPod locks a pod and returns what unlocks it.
func (n *Network) lockPod(id string) (unlock func()) {
	mu := &n.podLocks[maphash.String(n.seed, id)%uint64(len(n.podLocks))]
	mu.Lock()
	return mu.Unlock
}

func checkPod(pod loops.PodNetwork) error {
	if err := netstack.CheckName("pod ID", pod.ID); err != nil {
		return err
	}
	if !pod.Address.Is6() || pod.Address.Is4In6() {
		return fmt.Errorf("address %q: a pod needs an IPv6 address", pod.Address)
	}
	switch pod.IPv4 {
	case "", "none", "masquerade", "clat":
		return nil
	}
	return fmt.Errorf("ipv4 %q: use masquerade, clat or none", pod.IPv4)
}

// preparePod makes sure of the machine's own part and chooses what the plan needs.
func (n *Network) preparePod(ctx context.Context, pod loops.PodNetwork, further []netstack.Interface) (netstack.PodState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mtu == 0 {
		if err := n.applyMachineLocked(ctx); err != nil {
			return netstack.PodState{}, err
		}
	}
	p := netstack.Pod{ID: pod.ID, Scope: n.cfg.Scope, Address: pod.Address, MTU: n.mtu, Interfaces: further}
	if n.cfg.Mode == Lan {
		p.ProxyOn = n.links
	}
	var err error
	if pod.IPv4 == "masquerade" {
		if p.IPv4, err = n.chooseIPv4Locked(pod.ID); err != nil {
			return netstack.PodState{}, err
		}
	} else if err = n.releaseIPv4Locked(pod.ID); err != nil {
		return netstack.PodState{}, err
	}
	n.pods[pod.ID] = pod
	return netstack.PodPlan(p), nil
}

// applyPod makes the kernel agree with the pod's plan. The pod's side is complete
// before its links come up.
func (n *Network) applyPod(ctx context.Context, path string, want loops.PodNetwork, plan netstack.PodState) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, made, err := MakeNamespace(path)
	if err != nil {
		return err
	}
	if made {
		n.writes.Add(1)
	}
	pod, err := newSpace(fd, &n.writes)
	if err != nil {
		return err
	}
	defer pod.close()
	ours, theirs, fresh, err := n.host.ensurePair(pod, plan.Outside.Links[0], plan.Inside.Links[1])
	if err != nil {
		return err
	}
	inside := ends{pod, plan.Inside, theirs, fresh}
	if err := inside.apply(); err != nil {
		return fmt.Errorf("inside the pod: %w", err)
	}
	if err := (ends{n.host, plan.Outside, ours, fresh}).apply(); err != nil {
		return err
	}
	if err := pod.settle(ctx, netstack.PodLink, plan.Inside.Addresses[0].Prefix.Addr()); err != nil {
		return err
	}
	if fresh && len(want.Interfaces) == 0 {
		return nil
	}
	return n.applyInterfaces(ctx, pod, want.ID, want.Interfaces, plan.Interfaces)
}

// Detach implements loops.Network.
func (n *Network) Detach(ctx context.Context, podID string) error {
	if err := netstack.CheckName("pod ID", podID); err != nil {
		return fmt.Errorf("detach pod: %w", err)
	}
	defer n.lockPod(podID)()
	if err := n.removePod(podID); err != nil {
		return fmt.Errorf("detach pod %s: %w", podID, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plan == nil || !hasMovedPods(*n.plan) {
		return nil
	}
	// The address may be in use on another machine by now; its route, which the pod's
	// own stood in the way of, is due.
	return n.applyMachineLocked(ctx)
}

func (n *Network) removePod(podID string) error {
	n.mu.Lock()
	pod, attached := n.pods[podID]
	delete(n.lacking, podID)
	delete(n.pods, podID) // first, so that nothing repairs what is going away
	n.mu.Unlock()
	link, err := n.host.link(netstack.HostLink(n.cfg.Scope, podID))
	if err != nil {
		return err
	}
	if err := errors.Join(n.withdraw(link, pod.Address), n.host.deleteLink(link), n.removePorts(podID, pod, attached)); err != nil {
		return err
	}
	path := n.NamespacePath(podID)
	if fd, err := OpenNamespace(path); err == nil {
		unix.Close(fd)
		n.writes.Add(1)
	}
	if err := RemoveNamespace(path); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.releaseIPv4Locked(podID)
}

func hasMovedPods(plan loops.RoutePlan) bool {
	for _, r := range plan.Routes {
		if r.Prefix.IsSingleIP() {
			return true
		}
	}
	return false
}

// Routes implements loops.Network. Machines that can't be reached on a link of this
// machine are named in the error; all others are routed all the same.
func (n *Network) Routes(ctx context.Context, plan loops.RoutePlan) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plan = &plan
	return n.applyMachineLocked(ctx)
}

// Writes counts the changes made in the kernel so far. An apply that finds everything
// in place makes none.
func (n *Network) Writes() int64 { return n.writes.Load() }
