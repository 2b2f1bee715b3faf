package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack/linux/hostports"
	"starling.dev/starling/netstack/linux/policies"
	"starling.dev/starling/netstack/linux/services"
	"starling.dev/starling/netstack/policy"
	"starling.dev/starling/netstack/service"
	"starling.dev/starling/netstack/site"
	"starling.dev/starling/peer"
)

// follower keeps the directory of names, and the machine's tables of services and of
// policies, in step with the core's state.
type follower struct {
	log       *slog.Logger
	query     func(ctx context.Context, do func(*peer.Core)) error
	turned    func() <-chan struct{}
	graph     *lifecycle.Graph // of pods
	self      string           // this machine
	cluster   netip.Prefix
	directory *service.Directory
	table     *services.Table
	policies  *policies.Table
	ports     *hostports.Table
	sites     *site.Server
	// podIPv4 is a pod's address behind this machine; own is false if the NAT64 has to be
	// told of the pod for it to have one.
	podIPv4 func(podID, mode string) (a netip.Addr, own bool)
	// leadIPv4 has the NAT64 take IPv4 for these addresses and no others; it returns by which
	// address each is reached.
	leadIPv4 func([]netip.Addr) (map[netip.Addr]netip.Addr, error)
	// listening takes the programs that listen on ports which pods want.
	listening func(context.Context, map[uint16]string)
	nudged    chan struct{} // holds one: something changed that is no turn

	// mu is held while the state is taken in and applied. It guards what follows.
	mu       sync.Mutex
	seen     view
	inStep   bool // the kernel's table was brought in step since it was last in doubt
	left     map[netip.Addr]time.Time
	draining map[string]time.Time // by pod's ID: until when it is kept out of services
	recheck  bool                 // look at all pods again: draining is other than before
	enforced bool                 // policies are in force as the state says
	host     hostPorts
	balancer balancer
	begun    beginning

	ended atomic.Bool // Run has returned
}

// view is what the core showed last. Objects and slices of the core never change.
type view struct {
	services, machines, allows, pools, sites []*lifecycle.Object
	silent                                   map[string]bool
	ids                                      map[string]crdt.MachineID // by name
	synced                                   bool
	// version is that of the pods, of which only what changed is looked at.
	version uint64
}

// podChanges are the pods that changed since the last view.
type podChanges struct {
	entries []service.Pod
	gone    []service.Key
}

const (
	// pauseAfter bounds how often the state is taken in: a burst of turns is one change.
	pauseAfter = 50 * time.Millisecond
	// again is how soon something that failed, or was not complete, is looked at again.
	again = time.Second
)

// Run follows the state until the context ends.
func (f *follower) Run(ctx context.Context) error {
	defer f.ended.Store(true)
	for {
		turned := f.turned()
		var retry <-chan time.Time
		if err := f.step(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("services are not up to date on this machine", "error", err, "again", again)
			retry = time.After(again)
		} else if due := f.due(); due > 0 {
			retry = time.After(due)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turned:
		case <-f.nudged:
		case <-retry:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseAfter):
		}
	}
}

// due is when to look again although nothing changed; 0: never.
func (f *follower) due() (in time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.seen.synced || f.begun.waits {
		in = again
	}
	if len(f.host.wanted) > 0 && (in == 0 || lookAgain < in) {
		in = lookAgain
	}
	for _, until := range f.draining {
		if left := max(time.Until(until), pauseAfter); in == 0 || left < in {
			in = left
		}
	}
	return in
}

func (f *follower) close() error {
	return errors.Join(f.table.Close(), f.policies.Close(), f.ports.Close())
}

// String names the task.
func (f *follower) String() string { return "services" }

// nudge has the state looked at although no turn wrote anything.
func (f *follower) nudge() {
	select {
	case f.nudged <- struct{}{}:
	default:
	}
}

// step takes in what changed since the last time.
func (f *follower) step(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stepLocked(ctx)
}

func (f *follower) stepLocked(ctx context.Context) error {
	f.enforced = false
	now := view{silent: map[string]bool{}, ids: map[string]crdt.MachineID{}}
	var pods podChanges
	var members []peer.MemberInfo
	err := f.query(ctx, func(c *peer.Core) {
		pods = f.changedPods(c, &now)
		now.services, now.machines = c.Objects("Service"), c.Objects("Machine")
		now.allows, now.pools = c.Objects("Allow"), c.Objects("Pool")
		now.sites = c.Objects("Site")
		now.synced = c.Synced()
		members = c.Members()
	})
	if err != nil {
		return err
	}
	f.begun.waits = false
	for _, m := range members {
		now.silent[m.Name], now.ids[m.Name] = f.begun.silent(m.ID, m.Alive), m.ID
	}
	now.machines = membersOf(now.machines, now.ids)
	change := f.compare(now, pods)
	departed := f.addressesOf(change.GonePods)
	f.serveSites(f.seen.sites, now.sites)
	f.seen, f.recheck = now, false
	effect := f.directory.Update(change)
	f.noteLeft(effect)
	f.settleHostPorts()
	if err := f.look(ctx); err != nil {
		return err
	}
	if err := f.apply(ctx, effect); err != nil {
		f.inStep = false
		return err
	}
	return f.forget(effect, departed)
}

// membersOf leaves out what is left of machines that were removed.
func membersOf(machines []*lifecycle.Object, ids map[string]crdt.MachineID) (list []*lifecycle.Object) {
	for _, m := range machines {
		if _, member := ids[m.Key.Name]; member {
			list = append(list, m)
		}
	}
	return list
}

// changedPods reads the pods that changed since the last view; all of them if draining is
// other than before.
func (f *follower) changedPods(c *peer.Core, now *view) (pods podChanges) {
	f.endDrains()
	since := f.seen.version
	if f.recheck {
		since = 0
	}
	here := map[service.Key]bool{}
	version, all := c.Changes("Pod", since, func(k api.Key, o *lifecycle.Object) {
		key := service.Key{Namespace: k.Namespace, Name: k.Name}
		if o == nil {
			f.host.drop(k)
			pods.gone = append(pods.gone, key)
			return
		}
		here[key] = true
		f.host.note(o)
		pods.entries = append(pods.entries, f.entry(o))
	})
	if all {
		for _, p := range f.directory.Pods() {
			if !here[p.Key] {
				f.host.drop(api.Key{Kind: "Pod", Namespace: p.Key.Namespace, Name: p.Key.Name})
				pods.gone = append(pods.gone, p.Key)
			}
		}
	}
	now.version = version
	return pods
}

// apply brings the kernel's table in step.
func (f *follower) apply(ctx context.Context, e service.Effect) error {
	if err := f.enforce(ctx); err != nil {
		return err
	}
	all, mine := f.weigh()
	if err := f.lead(); err != nil {
		return err
	}
	local := f.directory.PodsOn(f.self)
	if !f.inStep {
		var forwards []service.Forward
		for _, s := range f.directory.Services() {
			forwards = append(forwards, s.Forwards()...)
		}
		if err := f.table.Sync(ctx, forwards, local); err != nil {
			return err
		}
		f.inStep = true
		return f.balance(all, mine)
	}
	var set []service.Forward
	var gone []service.Where
	for _, d := range e.Services {
		s, g := d.Changes()
		set, gone = append(set, s...), append(gone, g...)
	}
	if err := f.table.Update(set, gone); err != nil {
		return err
	}
	if err := f.table.SetLocal(local); err != nil {
		return err
	}
	return f.balance(all, mine)
}

// planLocked is what the Allows ask of this machine.
func (f *follower) planLocked() policy.Plan {
	var allows []policy.Allow
	for _, o := range f.seen.allows {
		if !o.Deleted {
			allows = append(allows, loops.AllowEntry(o))
		}
	}
	if len(allows) == 0 {
		return policy.Plan{}
	}
	pods := f.directory.Pods()
	plan := policy.Make(f.self, pods, allows)
	for _, p := range pods {
		if !plan.Empty() && p.Address.IsValid() && !f.cluster.Contains(p.Address) {
			plan.Beyond = append(plan.Beyond, p.Address)
		}
	}
	slices.SortFunc(plan.Beyond, netip.Addr.Compare)
	return plan
}

// enforce brings the kernel's table of policies in step.
func (f *follower) enforce(ctx context.Context) error {
	set := f.policies.Set
	if !f.inStep {
		set = f.policies.Sync
	}
	err := set(ctx, f.planLocked())
	f.enforced = err == nil
	return err
}

// guard brings policies in force as the state says now: for a pod that is about to be
// connected. That services are not up to date is no reason to keep the pod waiting.
func (f *follower) guard(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.stepLocked(ctx)
	if f.enforced {
		return nil
	}
	return err
}

// repair brings the table in step with what is known, whatever somebody did to it.
func (f *follower) repair(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.inStep {
		return nil // it is on the way anyhow
	}
	f.inStep = false
	return f.apply(ctx, service.Effect{})
}

// forget ends what the kernel remembers of pods that have left: UDP flows at once, since
// they have no end of their own, and all connections when the pod is gone.
func (f *follower) forget(e service.Effect, departed []netip.Addr) error {
	var left []netip.Addr
	for _, d := range e.Services {
		left = append(left, leavers(d)...)
	}
	if _, err := f.table.Forget(left, true); err != nil {
		return err
	}
	_, err := f.table.Forget(departed, false)
	return err
}

// addressesOf are the addresses that pods have in the directory.
func (f *follower) addressesOf(pods []service.Key) (list []netip.Addr) {
	for _, k := range pods {
		if p, ok := f.directory.Pod(k); ok && p.Address.IsValid() {
			list = append(list, p.Address)
		}
	}
	return list
}

// leavers are the endpoints that a service had and has no more.
func leavers(d service.Difference) (gone []netip.Addr) {
	now := map[netip.Addr]bool{}
	for _, e := range d.After.Endpoints {
		now[e.Address] = true
	}
	for _, e := range d.Before.Endpoints {
		if !now[e.Address] {
			gone = append(gone, e.Address)
		}
	}
	return gone
}

// entry is a pod as the directory shows it: one that drains is kept out of services.
func (f *follower) entry(o *lifecycle.Object) service.Pod {
	p := loops.PodEntry(o, f.graph)
	if _, ok := f.draining[o.ID]; ok && !p.Serving {
		delete(f.draining, o.ID) // the state shows by now why it drains
	} else if ok {
		p.Serving = false
	}
	return p
}
