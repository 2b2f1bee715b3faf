package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"

	"starling.dev/starling/loops"
)

// PodState is what this machine runs of one pod.
type PodState struct {
	ID, Namespace, Name string
	// Containers are the running ones, by name.
	Containers []loops.ContainerStatus
	// CPU (thousandths of a core) and Memory (bytes) are what they were given in all;
	// while a container is handed over to its successor, the one that was given more counts.
	CPU, Memory int64
}

// Pods lists the pods that have containers here, by ID.
func (r *Runtime) Pods(ctx context.Context) ([]PodState, error) {
	all, err := r.allRecords(r.in(ctx))
	if err != nil {
		return nil, r.explain(err)
	}
	pods, given := map[string]*PodState{}, map[string]map[string]givenLabel{}
	for _, rec := range all {
		pod := pods[rec.PodID]
		if pod == nil {
			pod = &PodState{ID: rec.PodID, Namespace: rec.PodNamespace, Name: rec.PodName}
			pods[rec.PodID] = pod
		}
		if rec.Phase == phaseRunning {
			pod.Containers = append(pod.Containers, *statusOf(rec))
		}
		if given[rec.PodID] == nil {
			given[rec.PodID] = map[string]givenLabel{}
		}
		g := given[rec.PodID][rec.Container]
		given[rec.PodID][rec.Container] = givenLabel{max(g.CPU, rec.Given.CPU), max(g.Memory, rec.Given.Memory)}
	}
	var list []PodState
	for _, id := range slices.Sorted(maps.Keys(pods)) {
		for _, g := range given[id] {
			pods[id].CPU, pods[id].Memory = pods[id].CPU+g.CPU, pods[id].Memory+g.Memory
		}
		slices.SortFunc(pods[id].Containers, func(a, b loops.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
		list = append(list, *pods[id])
	}
	return list, nil
}

// Sweep removes the containers, snapshots, cgroups and directories of pods that keep
// does not want, whatever an earlier run left of them.
func (r *Runtime) Sweep(ctx context.Context, keep func(podID string) bool) error {
	all, err := r.allRecords(r.in(ctx))
	if err != nil {
		return r.explain(err)
	}
	dirs, err := r.podDirs()
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, rec := range all {
		present[rec.PodID] = true
	}
	for _, id := range dirs {
		present[id] = true
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(present)) {
		if keep(id) {
			continue
		}
		if err := r.Containers().Remove(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("remove what is left of pod %s: %w", shortID(id), err))
		}
	}
	return errors.Join(errs...)
}

// StopAll ends every container at once, as pulling the plug of the machine would: the
// containers' records stay, and the peer that starts next finds them as after a
// reboot. It is for rehearsals; no peer may be at work in the namespace.
func (r *Runtime) StopAll(ctx context.Context) error {
	ctx = r.in(ctx)
	all, err := r.allRecords(ctx)
	if err != nil {
		return r.explain(err)
	}
	var errs []error
	for _, rec := range all {
		if rec.Phase != phaseNone {
			errs = append(errs, r.cut(ctx, rec))
		}
	}
	return r.explain(errors.Join(errs...))
}

// cut ends a task without a word on its container's labels.
func (r *Runtime) cut(ctx context.Context, rec record) error {
	task, err := r.task(ctx, rec.ID)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end container %s: %w", rec.ID, err)
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return fmt.Errorf("end container %s: %w", rec.ID, err)
	}
	if err := kill(ctx, task, syscall.SIGKILL, rec.Phase == phaseRunning); err != nil {
		return fmt.Errorf("end container %s: %w", rec.ID, err)
	}
	if exit := <-ended; exit.Error() != nil {
		return fmt.Errorf("end container %s: %w", rec.ID, exit.Error())
	}
	return r.deleteTask(ctx, rec.ID)
}

// Purge removes everything of this peer's from the machine: pods, images, and the
// containerd namespace itself.
func (r *Runtime) Purge(ctx context.Context) error {
	if err := r.Sweep(ctx, func(string) bool { return false }); err != nil {
		return err
	}
	if err := r.Images().Remove(ctx, func(Image) bool { return false }); err != nil {
		return r.explain(err)
	}
	ctx = r.in(ctx)
	if err := r.collect(ctx); err != nil {
		return err
	}
	err := r.client.NamespaceService().Delete(ctx, r.cfg.Namespace)
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove containerd's namespace %s: %w", r.cfg.Namespace, err)
	}
	// runc's own directory for the namespace is empty now; containerd leaves it.
	if err := os.Remove(filepath.Join(runcRoot, r.cfg.Namespace)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.cfg.Logger.Debug("can't remove runc's directory", "error", err)
	}
	return removeCgroups("/" + r.cfg.Namespace)
}

// runcRoot is where containerd's shim for runc keeps runc's state, by namespace.
const runcRoot = "/run/containerd/runc"

// collect has containerd remove what nothing refers to, and waits for that: a
// namespace that still has content can't be removed. Giving up a lease is the one way
// to ask for it. Leases of attempts that were cut short go too.
func (r *Runtime) collect(ctx context.Context) error {
	service := r.client.LeasesService()
	if _, err := service.Create(ctx, leases.WithRandomID()); err != nil {
		return fmt.Errorf("collect containerd's garbage: %w", err)
	}
	held, err := service.List(ctx)
	if err != nil {
		return fmt.Errorf("collect containerd's garbage: %w", err)
	}
	for _, lease := range held {
		if err := service.Delete(ctx, lease, leases.SynchronousDelete); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("collect containerd's garbage: %w", err)
		}
	}
	return nil
}
