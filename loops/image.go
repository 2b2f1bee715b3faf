package loops

import (
	"context"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Image makes the pod's images available on its machine.
func Image() lifecycle.Loop {
	return lifecycle.Loop{
		Name:   api.LoopImage,
		Kind:   "Pod",
		Claims: []string{"containerd:images"},
		Steps: []lifecycle.Step{{
			Name:     "image",
			Requires: []string{"admit"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "spec.containers.*.image"},
			Outputs:  []string{"status.images"},
			Timeout:  10 * time.Minute,
			Retry:    lifecycle.Retry{Base: time.Second, Max: 30 * time.Second},
			Do:       act(pull),
		}},
	}
}

func pull(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	out := lifecycle.Outputs{}
	for _, name := range in.Fields.Keys("spec.containers") {
		ref := in.Fields.String("spec.containers." + name + ".image")
		digest, err := h.Images().Ensure(ctx, ref)
		if err != nil {
			return nil, err
		}
		out["status.images."+name] = api.Str(digest)
	}
	return out, nil
}
