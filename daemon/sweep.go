package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// sweepAgain is the pause before a machine that could not be looked over is looked at
// again. Until then it takes on no new pod.
const sweepAgain = 5 * time.Second

// sweep looks the machine over: it removes what an earlier run left behind for pods that
// this machine no longer has to do with, or that its data directory, put back from an
// older copy, does not know of. The core begins nothing new before.
func (d *Daemon) sweep(ctx context.Context) error {
	for {
		runs, err := d.sweepOnce(ctx)
		if err == nil {
			d.swept.Store(true)
			d.loop.Post(ctx, peer.Swept{Runs: runs})
			return nil
		}
		d.cfg.Logger.Warn("what an earlier run left behind can't be removed; no new pod starts until then", "error", err, "again", sweepAgain)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepAgain):
		}
	}
}

// sweepOnce removes containers, then networks, and returns what the pods that stay were
// given.
func (d *Daemon) sweepOnce(ctx context.Context) (map[string]lifecycle.Reservation, error) {
	var asked error
	holds := func(step string) func(string) bool {
		return func(id string) (kept bool) {
			kept = true // as long as nobody can say
			asked = errors.Join(asked, d.loop.Query(ctx, func(c *peer.Core) { kept = c.Holds(id, step) }))
			return kept
		}
	}
	if err := d.runtime.Sweep(ctx, holds("container")); err != nil {
		return nil, err
	}
	gone, err := d.network.Sweep(ctx, holds("network"))
	if err != nil {
		return nil, err
	}
	if len(gone) > 0 {
		d.cfg.Logger.Info("removed what an earlier run left behind", "pods", gone)
	}
	pods, err := d.runtime.Pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the pods that run: %w", err)
	}
	runs := map[string]lifecycle.Reservation{}
	for _, p := range pods {
		runs[p.ID] = lifecycle.Reservation{CPU: p.CPU, Memory: p.Memory}
	}
	return runs, asked
}
