package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// balancer answers for the addresses that services have from pools, each on one machine:
// the first by rendezvous hashing of those that are there. The second watches the first.
type balancer struct {
	holder *linux.Holder
	watch  *gossip.Watcher
	active bool // something was set that may have to be taken back
	// fronts are the ports of the IPv4 addresses that this machine answers for.
	fronts []netstack.Front
	failed error // why IPv4 leads nowhere
}

// settled: the state is known to be complete, or will not be soon. Until then this machine answers
// for nothing new; what it answered for before, the kernel keeps for about as long.
func (f *follower) settled() bool { return f.seen.synced || f.begun.over() }

// weigh finds which addresses there are and which this machine answers for, and whom it has to
// watch. IPv4 addresses are for the table of services what stands for them.
func (f *follower) weigh() (all, mine []netip.Addr) {
	b := &f.balancer
	b.fronts = nil
	if len(f.seen.pools) == 0 && !b.active {
		return nil, nil
	}
	var watch []crdt.MachineID
	for _, s := range f.directory.Services() {
		if len(s.External) == 0 {
			continue
		}
		candidates := f.candidates(s.Pool)
		for _, a := range s.External {
			here, first := f.answersFor(a, candidates)
			if here = here && f.settled(); here {
				mine = append(mine, a)
			}
			if !first.IsZero() {
				watch = append(watch, first)
			}
			if a.Is6() {
				all = append(all, a)
				continue
			}
			all = append(all, netstack.StandIn(a))
			for _, p := range s.Ports {
				if here {
					b.fronts = append(b.fronts, netstack.Front{At: netip.AddrPortFrom(a, p.Port), Protocol: p.Protocol})
				}
			}
		}
	}
	b.watch.Watch(watch)
	return all, mine
}

// balance brings what this machine does for clients outside of the cluster in step: it answers
// for its addresses last, when all that is behind them is there.
func (f *follower) balance(all, mine []netip.Addr) error {
	b := &f.balancer
	if len(f.seen.pools) == 0 && !b.active {
		return nil
	}
	b.active = len(f.seen.pools) > 0
	return errors.Join(f.table.SetExternal(all), b.holder.Set(mine))
}

// answersFor decides whether this machine answers for an address. If it is the second
// after another one, that one's ID is returned: it is to be watched.
func (f *follower) answersFor(a netip.Addr, candidates []string) (here bool, first crdt.MachineID) {
	ranked := loops.Ranked(a, candidates)
	switch slices.Index(ranked, f.self) {
	case 0:
		return true, first
	case 1:
		first = f.seen.ids[ranked[0]]
		return f.balancer.watch.Lost(first), first
	}
	return false, first
}

// candidates are the machines that may answer for addresses of a pool: they are there, are
// not drained, and have the labels that the pool requires.
func (f *follower) candidates(pool string) (names []string) {
	i := slices.IndexFunc(f.seen.pools, func(o *lifecycle.Object) bool { return o.Key.Name == pool && !o.Deleted })
	if i < 0 {
		return nil
	}
	require := f.seen.pools[i].Fields
	for _, m := range f.seen.machines {
		if f.seen.silent[m.Key.Name] || m.Fields.String("lifecycle.target") == api.TargetDrained {
			continue
		}
		fits := !slices.ContainsFunc(require.Keys("spec.require"), func(label string) bool {
			return m.Fields.String(api.Child("spec.labels", label)) != require.String(api.Child("spec.require", label))
		})
		if fits {
			names = append(names, m.Key.Name)
		}
	}
	return names
}

// state prints what this machine answers for, one line per address.
func (b *balancer) state() string {
	var out strings.Builder
	for _, a := range b.holder.Held() {
		fmt.Fprintf(&out, "load balancer %s\n", a)
	}
	if b.failed != nil {
		fmt.Fprintf(&out, "IPv4 leads nowhere: %v\n", b.failed)
	}
	return out.String()
}
