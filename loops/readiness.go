package loops

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Readiness says when a pod can do its work: when it runs.
func Readiness() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopReadiness,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "ready",
			Requires: []string{"running"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "status.running"},
			Outputs:  []string{"status.ready"},
			Timeout:  5 * time.Second,
			Decide: func(_ lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
				return lifecycle.Outputs{"status.ready": api.Bool(in.Fields.Bool("status.running"))}, nil
			},
		}},
	}
}
