package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/identity"
)

// removedError is what a peer ends with whose machine was removed from the cluster.
func removedError(m identity.Machine) error {
	return api.Errorf(api.MachineRemoved, "this machine was removed from the cluster as %q (%s); run `peer leave --purge` and join again", m.Name, m.Reason)
}

// removal returns the removedError in err, if there is one.
func removal(err error) (*api.Error, bool) {
	e, ok := errors.AsType[*api.Error](err)
	return e, ok && e.Code == api.MachineRemoved
}

// retireTime bounds how long the pods of a machine may take to end. What is left then, the next
// start of the peer ends.
const retireTime = 5 * time.Minute

// retired is what a peer ends with: why, or, if pods of the machine still run, an error of which
// nobody takes it that starting the peer again is in vain.
func retired(why *api.Error, failed error) error {
	if failed == nil {
		return why
	}
	return fmt.Errorf("%v; before that, start the peer again, since pods of this machine could not be ended: %w", why, failed)
}

// retire ends the pods of a machine that was removed: nobody counts on them any more. Their
// volumes, the images and the log stay until `peer leave --purge`. The core must not run.
func (d *Daemon) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, retireTime)
	defer cancel()
	d.cfg.Logger.Info("this machine was removed from the cluster; its pods end")
	none := func(string) bool { return false }
	err := d.runtime.Sweep(ctx, none)
	_, failed := d.network.Sweep(ctx, none)
	return errors.Join(err, failed)
}

// retireUnopened is retire for a peer that does not open any more.
func (d *Daemon) retireUnopened(ctx context.Context) error {
	if err := d.buildNetwork(ctx); err != nil {
		return err
	}
	if err := d.buildRuntime(ctx); err != nil {
		return errors.Join(err, d.network.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, retireTime)
	defer cancel()
	var own sync.WaitGroup // the containerd that the peer supervises, if it does
	for _, t := range d.tasks {
		own.Go(func() {
			if err := t.Run(ctx); err != nil {
				d.cfg.Logger.Warn(t.String(), "error", err)
			}
		})
	}
	err := d.retire(ctx)
	for err != nil && len(d.tasks) > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			err = d.retire(ctx)
		}
	}
	cancel()
	own.Wait()
	return errors.Join(err, d.runtime.Close(), d.network.Close())
}
