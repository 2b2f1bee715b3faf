package loops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Container runs the pod's containers, and restarts in place those that changed.
func Container() lifecycle.Loop {
	return lifecycle.Loop{
		Name:   api.LoopContainer,
		Kind:   "Pod",
		Claims: []string{"containerd:containers"},
		Steps: []lifecycle.Step{{
			Name:     "container",
			Requires: []string{"image", "network", "storage"},
			Where:    lifecycle.OnMachine,
			Reads: []string{
				"status.machine", "spec.containers.*.image", "spec.containers.*.command", "spec.containers.*.args",
				"spec.containers.*.env", "spec.containers.*.workdir", "spec.containers.*.user", "spec.containers.*.ports",
				"spec.containers.*.resources", "spec.containers.*.mounts",
				"spec.containers.*.probes.startup", "spec.containers.*.probes.liveness", // which make it fail
				"spec.restart", "spec.stop", "spec.runtime", "spec.partition", "lifecycle.restart",
				"status.images", "status.network.namespace", "status.volumes",
			},
			Outputs: []string{"status.containers", "status.running", "status.fence"},
			Timeout: 2 * time.Minute,
			Retry:   lifecycle.Retry{Base: time.Second, Max: time.Minute},
			Do:      act(start),
			Undo:    undo(stop),
			Expect:  started,
		}},
	}
}

func start(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	fence, err := hold(ctx, h, in)
	if err != nil {
		return nil, err
	}
	specs := containerSpecs(in)
	if fence != "" {
		for i := range specs {
			specs[i].Env[FenceVariable] = fence
		}
	}
	statuses, err := h.Containers().Ensure(ctx, withNames(sandbox(in), h), specs)
	if err != nil {
		return nil, err
	}
	out := lifecycle.Outputs{}
	running := true
	for _, s := range statuses {
		at := "status.containers." + s.Name + "."
		out[at+"id"] = api.Str(s.ID)
		out[at+"restarts"] = api.Int(s.Restarts)
		if s.Exited {
			out[at+"exit"] = api.Int(s.ExitCode)
			running = false
			continue
		}
		out[at+"pid"] = api.Int(s.PID)
		out[at+"started"] = api.Time(s.StartedAt)
	}
	out["status.running"] = api.Bool(running)
	if fence != "" {
		out["status.fence"] = fence
	}
	return out, nil
}

// started foretells what start writes: which containers there are, and that they run.
// What they were is no guide to their processes, so of those only the old are known.
func started(in lifecycle.Inputs) lifecycle.Outputs {
	out := lifecycle.Outputs{}
	for _, name := range in.Fields.Keys("spec.containers") {
		at := api.Child("status.containers", name)
		exit := at + ".exit"
		for path, v := range in.Previous {
			if api.Below(path, at) && path != exit {
				out[path] = v
			}
		}
	}
	out["status.running"] = api.Bool(true)
	return out
}

func stop(ctx context.Context, h Host, in lifecycle.Inputs) error {
	if err := h.Containers().Remove(ctx, in.ID); err != nil {
		return err
	}
	return dropGuard(h, in)
}

func sandbox(in lifecycle.Inputs) PodSandbox {
	f := in.Fields
	return PodSandbox{
		ID: in.ID, Namespace: in.Key.Namespace, Name: in.Key.Name, Hostname: in.Key.Name,
		NetNS: f.String("status.network.namespace"),
		Stop:  StopSpec{Signal: f.String("spec.stop.signal"), Grace: f.Duration("spec.stop.grace")},
		Rerun: f["lifecycle.restart"],
	}
}

func containerSpecs(in lifecycle.Inputs) []ContainerSpec {
	var specs []ContainerSpec
	for _, name := range in.Fields.Keys("spec.containers") {
		specs = append(specs, containerSpec(in.Fields, name))
	}
	return specs
}

func containerSpec(f api.Fields, name string) ContainerSpec {
	at := "spec.containers." + name + "."
	c := ContainerSpec{
		Name: name, Image: f.String(at + "image"), Digest: f.String("status.images." + name),
		Command: f.Strings(at + "command"), Args: f.Strings(at + "args"),
		WorkDir: f.String(at + "workdir"), User: f.String(at + "user"),
		CPU: f.CPU(at + "resources.cpu"), Memory: f.Bytes(at + "resources.memory"),
		Restart: f.String("spec.restart"), Runtime: f.String("spec.runtime"),
		Env: map[string]string{}, Ports: map[string]uint16{},
	}
	for _, k := range f.Keys(at + "env") {
		c.Env[k] = f.String(api.Child(at+"env", k))
	}
	for _, k := range f.Keys(at + "ports") {
		c.Ports[k] = uint16(f.Int(at + "ports." + k))
	}
	for _, volume := range f.Keys(at + "mounts") {
		c.Mounts = append(c.Mounts, Mount{
			Source:   f.String("status.volumes." + volume),
			Target:   f.String(at + "mounts." + volume + ".path"),
			ReadOnly: f.Bool(at + "mounts." + volume + ".readonly"),
		})
	}
	slices.SortFunc(c.Mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return c
}

// AfterExit judges a container that ended by itself: whether that is a failure of
// the step, and the sentence for it. When it is none, the step looks again and notes
// the exit.
func AfterExit(restart string, e Exit) (failed bool, code, message string) {
	if restart == api.RestartNever || (restart == api.RestartOnFailure && e.Code == 0 && !e.OOM) {
		return false, "", ""
	}
	code = api.ContainerExited
	message = fmt.Sprintf("container %s exited with code %d", e.Container, e.Code)
	if e.OOM {
		code = api.OutOfMemory
		message = fmt.Sprintf("container %s was killed: it used more memory than its limit", e.Container)
	}
	if len(e.LastLines) > 0 {
		message += "; its last lines:\n" + strings.Join(e.LastLines, "\n")
	}
	return true, code, message
}
