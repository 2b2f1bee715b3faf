package oci

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"golang.org/x/sys/unix"
)

// stop ends a generation's processes: its signal, its grace, then SIGKILL for all of
// them. That we caused it is written down first, so that no peer, not even the next,
// takes the exit for the container's own.
func (r *Runtime) stop(ctx context.Context, rec record) error {
	if rec.Phase != phaseRunning && rec.Phase != phaseCreated {
		return nil
	}
	if err := r.drain(ctx, rec); err != nil {
		return err
	}
	if err := r.setLabels(ctx, rec.ID, map[string]string{labelStopping: "true"}); err != nil {
		return err
	}
	task, err := r.task(ctx, rec.ID)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop container %s: %w", rec.ID, err)
	}
	if err := endTask(ctx, task, rec); err != nil {
		return fmt.Errorf("stop container %s: %w", rec.ID, err)
	}
	return nil
}

// drain lets others stop sending work to a container that has time to end.
func (r *Runtime) drain(ctx context.Context, rec record) error {
	if r.cfg.BeforeStop == nil || rec.Phase != phaseRunning || rec.Stop.Grace == 0 {
		return nil
	}
	if err := r.cfg.BeforeStop(ctx, rec.PodID); err != nil {
		return fmt.Errorf("take pod %s out of its services: %w", rec.PodName, err)
	}
	return nil
}

// endTask asks, waits, and then kills. A task that was never started is killed at
// once: there is no program in it that could understand a signal.
func endTask(ctx context.Context, task containerd.Task, rec record) error {
	ended, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	grace := time.Duration(0)
	if rec.Phase == phaseRunning && rec.Stop.Grace > 0 {
		if err := kill(ctx, task, stopSignal(rec.Stop.Signal), false); err != nil {
			return err
		}
		grace = rec.Stop.Grace
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	for {
		select {
		case exit := <-ended:
			return exit.Error()
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			if err := kill(ctx, task, syscall.SIGKILL, rec.Phase == phaseRunning); err != nil {
				return err
			}
		}
	}
}

// kill sends a signal; a process that has ended needs none.
func kill(ctx context.Context, task containerd.Task, signal syscall.Signal, all bool) error {
	var options []containerd.KillOpts
	if all {
		options = append(options, containerd.WithKillAll)
	}
	err := task.Kill(ctx, signal, options...)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// stopSignal reads a signal's name; the specs were checked, so an unknown one, from a
// newer peer say, is SIGTERM.
func stopSignal(name string) syscall.Signal {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if signal := unix.SignalNum(name); signal != 0 {
		return signal
	}
	return syscall.SIGTERM
}

// remove deletes what is left of a generation that was stopped.
func (r *Runtime) remove(ctx context.Context, rec record) error {
	if err := r.deleteTask(ctx, rec.ID); err != nil {
		return err
	}
	container, err := r.client.LoadContainer(ctx, rec.ID)
	if err == nil {
		err = container.Delete(ctx, containerd.WithSnapshotCleanup)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", rec.ID, err)
	}
	r.board.forget(rec.ID)
	return nil
}

// deleteTask removes an ended task with its shim, which completes its log. The call
// goes to the service itself: the client's own Delete looks at the state first.
func (r *Runtime) deleteTask(ctx context.Context, id string) error {
	_, err := r.client.TaskService().Delete(ctx, &tasksapi.DeleteTaskRequest{ContainerID: id})
	if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete the task of container %s: %w", id, err)
	}
	return nil
}

// discard removes a generation that could not be started, even if the caller's time
// is over.
func (r *Runtime) discard(rec record) error {
	ctx, cancel := context.WithTimeout(r.in(context.Background()), cleanupTime)
	defer cancel()
	rec.Stop.Grace = 0
	if err := r.stop(ctx, rec); err != nil {
		return err
	}
	return r.remove(ctx, rec)
}

// task loads a container's task without attaching to its output.
func (r *Runtime) task(ctx context.Context, id string) (containerd.Task, error) {
	container, err := r.client.LoadContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	return container.Task(ctx, nil)
}

// setLabels changes some labels of a container and leaves the others alone.
func (r *Runtime) setLabels(ctx context.Context, id string, labels map[string]string) error {
	var paths []string
	for name := range labels {
		paths = append(paths, "labels."+name)
	}
	_, err := r.client.ContainerService().Update(ctx, containers.Container{ID: id, Labels: labels}, paths...)
	if err != nil {
		return fmt.Errorf("label container %s: %w", id, err)
	}
	return nil
}
