package server

import (
	"context"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/peer"
)

// Analyze sums up the latest results of steps, all over the cluster as this peer knows it.
func (s *Server) Analyze(ctx context.Context, req *apiv1.AnalyzeRequest) (*apiv1.AnalyzeResponse, error) {
	out := &apiv1.AnalyzeResponse{}
	since := time.UnixMilli(req.GetSinceMs())
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		for _, t := range c.Timings(since) {
			out.Steps = append(out.Steps, timingTo(t, c.StepsBefore(t.Kind, t.Step)))
		}
		churn, from := c.Churn(since)
		for _, l := range churn {
			out.Loops = append(out.Loops, &apiv1.LoopChurn{
				Loop: l.Loop, Entries: uint32(l.Entries), Objects: uint32(l.Objects), Worst: keyTo(l.Worst),
				WorstEntries: uint32(l.WorstEntries), Held: uint32(l.Held), Budget: uint32(l.Budget),
			})
		}
		out.FromMs = millis(from)
		return nil
	})
}

func timingTo(t peer.Timing, requires []string) *apiv1.StepTiming {
	return &apiv1.StepTiming{
		Kind: t.Kind, Loop: t.Loop, Step: t.Step, Runs: uint32(t.Runs), Failures: uint32(t.Failures),
		WaitedP50Ms: t.Waited.P50.Milliseconds(), WaitedP99Ms: t.Waited.P99.Milliseconds(),
		WorkedP50Ms: t.Worked.P50.Milliseconds(), WorkedP99Ms: t.Worked.P99.Milliseconds(),
		SlowestMachine: t.Machine, SlowestMs: t.Longest.Milliseconds(),
		Requires: requires,
	}
}
