package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"starling.dev/starling/api"
	"starling.dev/starling/loops"
)

// cleanupTime bounds what is done after a failure, which may be that the caller's
// time ran out.
const cleanupTime = 15 * time.Second

// nextGeneration is greater than that of any generation that exists or has left a
// log, so that runs are told apart in the log for as long as the pod lives here.
func (r *Runtime) nextGeneration(podID, container string, have []record) uint64 {
	greatest := greatestRun(r.logDir(podID, container))
	for _, h := range have {
		greatest = max(greatest, h.Generation)
	}
	return greatest + 1
}

// create makes a generation ready to start: snapshot, container, and task, so that
// only the program remains to be executed.
func (c *Containers) create(ctx context.Context, pod loops.PodSandbox, spec loops.ContainerSpec, generation uint64, restarts uint32) (*record, error) {
	image, err := c.Images().image(ctx, spec.Image, spec.Digest)
	if err != nil {
		return nil, err
	}
	rec := record{
		ID:           containerID(pod.ID, spec.Name, generation),
		PodID:        pod.ID,
		PodNamespace: pod.Namespace,
		PodName:      pod.Name,
		Container:    spec.Name,
		Generation:   generation,
		SpecHash:     specHash(pod, spec),
		Digest:       image.Target().Digest.String(),
		Restarts:     restarts,
		Stop:         pod.Stop,
		Given:        givenLabel{spec.CPU, spec.Memory},
		Phase:        phaseCreated,
	}
	if err := os.MkdirAll(c.logDir(pod.ID, spec.Name), 0o755); err != nil {
		return nil, fmt.Errorf("make the container's log directory: %w", err)
	}
	container, err := c.define(ctx, pod, spec, rec, image)
	if err != nil {
		return nil, err
	}
	task, err := container.NewTask(ctx, cio.BinaryIO(c.cfg.LoggerPath, c.loggerArgs(rec)))
	if err != nil {
		return nil, errors.Join(startFailure(rec, err), c.discard(rec))
	}
	rec.PID = task.Pid()
	return &rec, nil
}

// define makes the containerd container and its snapshot. A snapshot of this name
// that exists belongs to an attempt that was cut short, and is replaced.
func (c *Containers) define(ctx context.Context, pod loops.PodSandbox, spec loops.ContainerSpec, rec record, image containerd.Image) (containerd.Container, error) {
	shim, shimOptions, err := runtimeFor(spec.Runtime)
	if err != nil {
		return nil, err
	}
	options := []containerd.NewContainerOpts{
		containerd.WithImage(image),
		containerd.WithSnapshotter(c.cfg.Snapshotter),
		containerd.WithNewSnapshot(rec.ID, image),
		containerd.WithContainerLabels(rec.labels()),
		containerd.WithNewSpec(c.specOptions(pod, spec, rec, image)...),
	}
	if shimOptions != nil {
		options = append(options, containerd.WithRuntime(shim, shimOptions))
	} else {
		options = append(options, containerd.WithRuntime(shim, nil))
	}
	container, err := c.client.NewContainer(ctx, rec.ID, options...)
	if errdefs.IsAlreadyExists(err) {
		if err := c.removeSnapshot(ctx, rec.ID); err != nil {
			return nil, err
		}
		container, err = c.client.NewContainer(ctx, rec.ID, options...)
	}
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		defer cancel()
		return nil, errors.Join(startFailure(rec, err), c.removeSnapshot(cleanup, rec.ID))
	}
	return container, nil
}

func (r *Runtime) removeSnapshot(ctx context.Context, id string) error {
	err := r.client.SnapshotService(r.cfg.Snapshotter).Remove(ctx, id)
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove snapshot %s: %w", id, err)
	}
	return nil
}

// start executes the program of a generation that create made. It asks the service
// itself, and only once: this is what the service gap waits for.
func (c *Containers) start(ctx context.Context, rec *record) error {
	response, err := c.client.TaskService().Start(ctx, &tasksapi.StartRequest{ContainerID: rec.ID})
	if err != nil {
		return startFailure(*rec, errgrpc.ToNative(err))
	}
	rec.PID, rec.Phase, rec.Started = response.Pid, phaseRunning, now()
	return nil
}

// refresh writes down that a generation runs, and how it is to be stopped.
func (r *Runtime) refresh(ctx context.Context, rec record) error {
	labels := map[string]string{
		labelStop:    rec.labels()[labelStop],
		labelStarted: rec.Started.UTC().Format(time.RFC3339Nano),
	}
	return r.setLabels(ctx, rec.ID, labels)
}

// startFailure says why a container could not start, in the words of the OCI runtime
// without those of the layers above it.
func startFailure(rec record, err error) error {
	if errdefs.IsUnavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("create container %s of pod %s: %w", rec.Container, rec.PodName, err)
	}
	return failure(api.StepFailed, err, "container %s of pod %s can't start: %s", rec.Container, rec.PodName, plainReason(err.Error()))
}

// plainReason strips the prefixes with which containerd and runc hand an error on.
func plainReason(text string) string {
	for _, prefix := range []string{
		"failed to create task for container: ",
		"failed to create shim task: ",
		"OCI runtime create failed: ",
		"OCI runtime start failed: ",
		"runc create failed: ",
		"runc start failed: ",
		"unable to start container process: ",
		"cannot start a container process: ",
	} {
		text = strings.TrimPrefix(text, prefix)
	}
	return strings.TrimSuffix(text, ": unknown")
}

// now is the time as labels keep it, so that a status reads the same before and after
// it was written down.
func now() time.Time { return time.Now().UTC().Round(0) }
