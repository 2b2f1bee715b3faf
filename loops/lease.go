package loops

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// FenceVariable is the environment variable that tells a leased pod its fencing number.
// A program hands it to whatever it writes to, which refuses a lower one than the
// highest that it saw: a machine that was paused may wake after its lease has ended.
const FenceVariable = "STARLING_FENCE"

// Leaser is a host that can keep pods which run under a lease only.
type Leaser interface{ Leases() Leases }

// Leases keeps what the core tells of leases, and stops containers whose lease ended,
// even if this program is dead.
type Leases interface {
	// Hold returns the pod's lease if it is held and guarded: from then on its
	// containers are killed when it ends. It waits a little for one that is on its way. A
	// *lifecycle.Error says what is waited for.
	Hold(ctx context.Context, podID string) (Lease, error)
	// Tell takes how a lease stands now. It must not block.
	Tell(Lease)
	// Drop ends the guard of a pod whose containers are gone. Idempotent.
	Drop(podID string) error
}

// Lease is one pod's right to run here.
type Lease struct {
	PodID string
	Held  bool
	// Fence grows with each holder.
	Fence uint64
	// Until is the reading of CLOCK_BOOTTIME at which no container may run any more.
	Until time.Duration
	// Why says what is waited for while it is not held.
	Why string
}

// hold returns the fencing number that the pod's containers are given, and has them
// guarded; "" for a pod that needs no lease.
func hold(ctx context.Context, h Host, in lifecycle.Inputs) (string, error) {
	if in.Fields.String("spec.partition") != api.PartitionLeased {
		return "", nil
	}
	leaser, ok := h.(Leaser)
	if !ok {
		return "", fmt.Errorf("start %s: this machine can't guard a lease", in.Key)
	}
	l, err := leaser.Leases().Hold(ctx, in.ID)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(l.Fence, 10), nil
}

// dropGuard ends the guard once the containers are gone.
func dropGuard(h Host, in lifecycle.Inputs) error {
	if leaser, ok := h.(Leaser); ok && in.Fields.String("spec.partition") == api.PartitionLeased {
		return leaser.Leases().Drop(in.ID)
	}
	return nil
}

// NotHeld is the error of a step that waits for its pod's lease.
func NotHeld(l Lease) error {
	why := l.Why
	if why == "" {
		why = "the voters have not answered yet"
	}
	return &lifecycle.Error{Code: api.NoMajority, Message: "waits for its lease: " + why, Wait: true}
}
