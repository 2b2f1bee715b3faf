package daemon

import (
	"context"
	"errors"
	"fmt"

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

// retire ends the pods of a machine that was removed: other machines run them by now. Their
// volumes, the images and the log stay until `peer leave --purge`. The core must not run.
func (d *Daemon) retire(ctx context.Context) error {
	none := func(string) bool { return false }
	_, err := d.network.Sweep(ctx, none)
	if err := errors.Join(d.runtime.Sweep(ctx, none), err); err != nil {
		return fmt.Errorf("end the pods of this machine: %w", err)
	}
	return nil
}

// retireUnopened is retire for a peer that does not open any more.
func (d *Daemon) retireUnopened(ctx context.Context) error {
	if err := d.buildNetwork(ctx); err != nil {
		return err
	}
	if err := d.buildRuntime(ctx); err != nil {
		return errors.Join(err, d.network.Close())
	}
	return errors.Join(d.retire(ctx), d.runtime.Close(), d.network.Close())
}
