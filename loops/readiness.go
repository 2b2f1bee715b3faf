package loops

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Readiness says when a pod can do its work: when it runs, and its probes pass.
func Readiness() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopReadiness,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "ready",
			Goal:     true,
			Requires: []string{"running"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "status.running", "probed"},
			Outputs:  []string{"status.ready"},
			Timeout:  10 * time.Minute, // for the first word of its probes, which give up sooner
			Decide:   ready,
		}},
	}
}
