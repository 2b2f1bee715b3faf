package oci

import (
	"context"
	"fmt"
)

// Condemn marks the running generation of a container as one that must not stay, for a
// reason that lies outside of its spec: the next [Containers.Ensure] makes a successor
// and then stops it, with its signal and its grace. Until then it goes on. A container
// that does not run needs no mark.
func (r *Runtime) Condemn(ctx context.Context, podID, container string) error {
	inside := r.in(ctx)
	have, err := r.podRecords(inside, podID)
	if err != nil {
		return fmt.Errorf("condemn container %s: %w", container, r.explain(err))
	}
	for _, rec := range have {
		if rec.Container != container || rec.Phase != phaseRunning {
			continue
		}
		if err := r.setLabels(inside, rec.ID, map[string]string{labelStopping: "true"}); err != nil {
			return fmt.Errorf("condemn container %s: %w", container, err)
		}
	}
	return nil
}
