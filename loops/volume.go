package loops

import (
	"context"
	"fmt"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Volume makes the pod's directories on its machine.
func Volume() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopVolume,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "storage",
			Requires: []string{"admit"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "spec.volumes"},
			Outputs:  []string{"status.volumes"},
			Timeout:  time.Minute,
			Do:       act(mount),
			Undo:     undo(unmount),
			Expect:   mounted,
		}},
	}
}

func mount(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	out := lifecycle.Outputs{}
	for _, name := range in.Fields.Keys("spec.volumes") {
		path, err := h.Volumes().Ensure(ctx, in.ID, name)
		if err != nil {
			return nil, fmt.Errorf("make volume %s on %s: %w", name, in.Machine, err)
		}
		out["status.volumes."+name] = api.Str(path)
	}
	return out, nil
}

// mounted foretells which volumes there are. The path of a new one is not known before
// it is made.
func mounted(in lifecycle.Inputs) lifecycle.Outputs {
	out := lifecycle.Outputs{}
	for _, name := range in.Fields.Keys("spec.volumes") {
		at := api.Child("status.volumes", name)
		out[at] = in.Previous[at]
	}
	return out
}

func unmount(ctx context.Context, h Host, in lifecycle.Inputs) error {
	return h.Volumes().Release(ctx, in.ID)
}
