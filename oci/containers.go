package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"

	"starling.dev/starling/loops"
)

// Containers runs pods' containers.
type Containers struct{ *Runtime }

var _ loops.Containers = (*Containers)(nil)

// namePattern is what may become part of a path and of a containerd identifier.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)

// Ensure implements loops.Containers. Containers are handled side by side, and one
// that fails does not hold up the others; the statuses are those that succeeded.
func (c *Containers) Ensure(ctx context.Context, pod loops.PodSandbox, specs []loops.ContainerSpec) ([]loops.ContainerStatus, error) {
	if err := checkNames(pod, specs); err != nil {
		return nil, err
	}
	ctx = c.in(ctx)
	unlock, err := c.pods.lock(ctx, pod.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.writePodFiles(pod); err != nil {
		return nil, err
	}
	have, err := c.podRecords(ctx, pod.ID)
	if err != nil {
		return nil, c.explain(err)
	}
	unlisted, listed := split(have, specs)
	statuses := make([]*loops.ContainerStatus, len(specs))
	errs := make([]error, len(specs)+1)
	var group sync.WaitGroup
	for n, spec := range specs {
		group.Go(func() { statuses[n], errs[n] = c.ensureOne(ctx, pod, spec, listed[spec.Name]) })
	}
	group.Go(func() { errs[len(specs)] = c.retire(ctx, unlisted) })
	group.Wait()
	return compact(statuses), c.explain(errors.Join(errs...))
}

func checkNames(pod loops.PodSandbox, specs []loops.ContainerSpec) error {
	if !namePattern.MatchString(pod.ID) {
		return fmt.Errorf("%q is no pod ID", pod.ID)
	}
	for _, spec := range specs {
		if !namePattern.MatchString(spec.Name) {
			return fmt.Errorf("container name %q of pod %s: use letters, digits and hyphens", spec.Name, pod.Name)
		}
	}
	return nil
}

// split sorts generations by container, apart from those that are no longer listed.
func split(have []record, specs []loops.ContainerSpec) (unlisted []record, listed map[string][]record) {
	listed = map[string][]record{}
	for _, r := range have {
		if slices.ContainsFunc(specs, func(s loops.ContainerSpec) bool { return s.Name == r.Container }) {
			listed[r.Container] = append(listed[r.Container], r)
		} else {
			unlisted = append(unlisted, r)
		}
	}
	return unlisted, listed
}

func compact(statuses []*loops.ContainerStatus) []loops.ContainerStatus {
	var out []loops.ContainerStatus
	for _, s := range statuses {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// ensureOne brings one container to its spec.
func (c *Containers) ensureOne(ctx context.Context, pod loops.PodSandbox, spec loops.ContainerSpec, have []record) (*loops.ContainerStatus, error) {
	have, err := c.examine(ctx, pod, have)
	if err != nil {
		return nil, err
	}
	d := decide(specHash(pod, spec), spec.Restart, have)
	next := d.keep
	if next == nil {
		next, err = c.create(ctx, pod, spec, c.nextGeneration(pod.ID, spec.Name, have), d.restarts)
		if err != nil {
			return nil, err
		}
		d.start = true
	}
	if d.start {
		return c.handOver(ctx, *next, d.retire)
	}
	if err := c.retire(ctx, d.retire); err != nil {
		return nil, err
	}
	if d.exited != nil {
		status := statusOf(*next)
		status.Exited, status.ExitCode = true, d.exited.Code
		return status, nil
	}
	next.Stop = pod.Stop
	if next.Started.IsZero() {
		next.Started = now()
	}
	return statusOf(*next), c.refresh(ctx, *next)
}

// examine completes what is known of generations: ended ones are settled, and running
// ones checked to be in the pod's present network namespace.
func (c *Containers) examine(ctx context.Context, pod loops.PodSandbox, have []record) ([]record, error) {
	for n := range have {
		switch have[n].Phase {
		case phaseStopped:
			settled, err := c.settle(ctx, have[n], nil)
			if err != nil {
				return nil, err
			}
			have[n] = settled
		case phaseRunning, phaseCreated:
			have[n].Stale = elsewhere(have[n].PID, pod.NetNS)
		}
	}
	return have, nil
}

// elsewhere tells whether a process is in another network namespace than the one at
// path, which happens when the namespace was removed and made again.
func elsewhere(pid uint32, path string) bool {
	if path == "" {
		return false
	}
	ours, err := os.Stat(path)
	if err != nil {
		return false
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && !os.SameFile(ours, theirs)
}

// handOver stops the old generations, starts the new one, and only then removes the
// old: what lies between the end of one process and the start of the next is the
// service gap.
func (c *Containers) handOver(ctx context.Context, next record, old []record) (*loops.ContainerStatus, error) {
	for _, r := range old {
		if err := c.stop(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := c.start(ctx, &next); err != nil {
		return nil, errors.Join(err, c.discard(next))
	}
	for _, r := range old {
		if err := c.remove(ctx, r); err != nil {
			return nil, err
		}
	}
	return statusOf(next), c.refresh(ctx, next)
}

// retire stops and removes generations that have no successor.
func (c *Containers) retire(ctx context.Context, old []record) error {
	errs := make([]error, len(old))
	var group sync.WaitGroup
	for n, r := range old {
		group.Go(func() {
			if errs[n] = c.stop(ctx, r); errs[n] == nil {
				errs[n] = c.remove(ctx, r)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Remove implements loops.Containers. The pod's directory, with its logs, goes too.
func (c *Containers) Remove(ctx context.Context, podID string) error {
	if !namePattern.MatchString(podID) {
		return fmt.Errorf("%q is no pod ID", podID)
	}
	ctx = c.in(ctx)
	unlock, err := c.pods.lock(ctx, podID)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := c.podRecords(ctx, podID)
	if err != nil {
		return c.explain(err)
	}
	if err := c.retire(ctx, have); err != nil {
		return c.explain(err)
	}
	return errors.Join(removeCgroups(podCgroup(c.cfg.Namespace, podID)), c.removePodFiles(podID))
}

func statusOf(r record) *loops.ContainerStatus {
	return &loops.ContainerStatus{
		Name:      r.Container,
		ID:        r.ID,
		PID:       r.PID,
		Digest:    r.Digest,
		StartedAt: r.Started,
		Restarts:  r.Restarts,
	}
}
