package oci

import (
	"context"
	"errors"
	"fmt"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
)

// podRecords returns all generations of a pod's containers.
func (r *Runtime) podRecords(ctx context.Context, podID string) ([]record, error) {
	return r.records(ctx, fmt.Sprintf("labels.%q==%s", labelPod, podID))
}

// allRecords returns all generations of all pods.
func (r *Runtime) allRecords(ctx context.Context) ([]record, error) {
	return r.records(ctx, fmt.Sprintf("labels.%q", labelPod))
}

func (r *Runtime) records(ctx context.Context, filter string) ([]record, error) {
	list, err := r.client.ContainerService().List(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var found []record
	for _, container := range list {
		rec, ok, err := r.recordOf(ctx, container)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, rec)
		}
	}
	return found, nil
}

// recordOf completes a container's labels with the state of its task.
func (r *Runtime) recordOf(ctx context.Context, container containers.Container) (rec record, ok bool, err error) {
	rec, ok = parseRecord(container.ID, container.Labels)
	if !ok {
		return record{}, false, nil
	}
	process, err := r.process(ctx, container.ID)
	if errdefs.IsNotFound(err) {
		return rec, true, nil
	}
	if err != nil {
		return record{}, false, err
	}
	rec.PID = process.Pid
	rec.Phase = phaseOf(process.Status)
	return rec, true, nil
}

// process returns the state of a container's task.
func (r *Runtime) process(ctx context.Context, id string) (*tasktypes.Process, error) {
	response, err := r.client.TaskService().Get(ctx, &tasksapi.GetRequest{ContainerID: id})
	if err != nil {
		return nil, fmt.Errorf("look at the task of container %s: %w", id, errgrpc.ToNative(err))
	}
	return response.Process, nil
}

// phaseOf: a paused task still is the running one; one in an unknown state has lost
// its shim, and with it its processes.
func phaseOf(status tasktypes.Status) phase {
	switch status {
	case tasktypes.Status_CREATED:
		return phaseCreated
	case tasktypes.Status_RUNNING, tasktypes.Status_PAUSED, tasktypes.Status_PAUSING:
		return phaseRunning
	}
	return phaseStopped
}

// explain names containerd's socket when it is containerd that does not answer.
func (r *Runtime) explain(err error) error {
	var known *unreachable
	if err == nil || !errdefs.IsUnavailable(err) || errors.As(err, &known) {
		return err
	}
	return &unreachable{socket: r.cfg.Socket, cause: err}
}
