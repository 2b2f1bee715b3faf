package daemon

import (
	"context"
	"net/netip"
	"time"

	"starling.dev/starling/netstack/service"
)

const (
	// drainFor is how long a pod goes on serving after it has left its services here: by
	// then all machines in reach have learned of it, and send it no new connections.
	drainFor = time.Second
	// keepOut bounds how long a pod is kept out of services on account of a drain, if
	// the state never shows why it was stopped.
	keepOut = 5 * time.Second
)

// Drain takes a pod out of its services, if it is in any, and waits until new connections
// no longer come to it. It is called before a container is asked to stop, and is
// idempotent; what the pod's grace is for, the connections that are open, comes after it.
// A peer that only removes what it kept follows no services: it has no follower, or one that
// has ended.
func (f *follower) Drain(ctx context.Context, podID string) error {
	if f == nil || f.ended.Load() {
		return nil
	}
	until, err := f.startDrain(ctx, podID)
	if err != nil || until.IsZero() {
		return err
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// startDrain returns when the drain is over; the zero time for a pod without services.
func (f *follower) startDrain(ctx context.Context, podID string) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	address, key, ok := f.byID(podID)
	if !ok {
		return time.Time{}, nil
	}
	if f.inService(key) {
		f.draining[podID] = time.Now().Add(drainFor + keepOut)
		f.recheck = true
		f.nudge() // so that the end is waited for
		if err := f.stepLocked(ctx); err != nil {
			return time.Time{}, err
		}
	}
	if left, ok := f.left[address]; ok {
		return left.Add(drainFor), nil
	}
	return time.Time{}, nil
}

// endDrains lets pods whose time is over back into their services, if their state says
// so.
func (f *follower) endDrains() {
	for id, until := range f.draining {
		if time.Now().After(until) {
			delete(f.draining, id)
			f.recheck = true
		}
	}
}

func (f *follower) byID(podID string) (netip.Addr, service.Key, bool) {
	for _, p := range f.directory.Pods() {
		if p.ID == podID {
			return p.Address, p.Key, p.Address.IsValid()
		}
	}
	return netip.Addr{}, service.Key{}, false
}

// inService reports whether some service sends connections to the pod.
func (f *follower) inService(k service.Key) bool {
	for _, s := range f.directory.ServicesOf(k) {
		for _, e := range s.Endpoints {
			if e.Pod == k.Name {
				return true
			}
		}
	}
	return false
}

// noteLeft remembers when pods left their services, for as long as that matters.
func (f *follower) noteLeft(e service.Effect) {
	now := time.Now()
	for _, d := range e.Services {
		for _, a := range leavers(d) {
			f.left[a] = now
		}
	}
	for a, at := range f.left {
		if now.Sub(at) > drainFor {
			delete(f.left, a)
		}
	}
}
