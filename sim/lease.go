package sim

import (
	"context"
	"time"

	"starling.dev/starling/loops"
)

// boot is the machine's boot-time clock. It starts anew with the power, which does not
// matter: nothing runs then that a lease was for. It never jumps.
func (m *machine) boot() time.Duration { return time.Second + m.w.now }

// The host as loops.Leases: what the daemon and the guards do on a real machine.

func (h *host) Leases() loops.Leases { return h }

// Hold finds the lease that the peer's present life knows of.
func (h *host) Hold(_ context.Context, podID string) (loops.Lease, error) {
	l := h.leases[podID]
	if !l.Held || h.m.boot() >= l.Until {
		h.m.w.sometimes("a machine without its lease waits")
		return l, loops.NotHeld(l)
	}
	return l, nil
}

// Tell has the guard know how long the pod may run.
func (h *host) Tell(l loops.Lease) {
	if old := h.leases[l.PodID]; !l.Held {
		l.Until = max(l.Until, old.Until)
	}
	h.leases[l.PodID] = l
	if !l.Held {
		return
	}
	h.m.w.sometimes("a lease is granted")
	h.m.w.after(l.Until-h.m.boot(), func() { h.guard(l.PodID) })
}

func (h *host) Drop(podID string) error {
	delete(h.leases, podID)
	return nil
}

// guard kills a pod whose lease ended, whether the peer runs or not.
func (h *host) guard(podID string) {
	in := h.pods[podID]
	if h.m.w.hooks.unguarded || in == nil || !fenced(in) || !in.runs() || h.m.boot() < h.leases[podID].Until {
		return
	}
	h.m.w.say("%s: the lease of %s is over; its guard kills it", h.m.name, in.name)
	h.m.w.sometimes("a guard kills")
	for _, name := range sortedIDs(in.containers) {
		h.exit(in, in.containers[name], 137)
	}
}

// fenced reports whether a pod was started under a lease.
func fenced(in *instance) bool {
	for _, c := range in.containers {
		if c.spec.Env[loops.FenceVariable] != "" {
			return true
		}
	}
	return false
}
