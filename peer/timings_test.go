package peer

import (
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// The figures of a step are of the attempts that ended, and each is one that was measured.
func TestTimingsOfSteps(t *testing.T) {
	c := newCluster(t, 1).cores[0].core
	c.journal.recent = recent{}
	note := func(step string, phase crdt.Phase, started, finished int64) {
		c.journal.recent.note(c, crdt.Change{
			Object: crdt.Ref{Kind: "Pod", Namespace: "default", Name: "web"}, Author: "loop:x", HLC: uint64(finished) << 16,
			Ops: []crdt.Op{{Kind: crdt.OpResult, Path: step, Register: &crdt.Register{Phase: phase, Queued: started - 5, Started: started, Finished: finished}}},
		})
	}
	for i := int64(1); i <= 100; i++ {
		note("slow", crdt.PhaseDone, 1000*i, 1000*i+10*i) // 10 ms, 20 ms, ... 1 s
	}
	note("slow", crdt.PhaseFailed, 200_000, 202_000)
	note("slow", crdt.PhaseStarted, 300_000, 0)
	note("fast", crdt.PhaseDone, 400_000, 400_001)
	note("fast", crdt.PhaseDone, 500_000, 499_000) // by two machines' clocks
	list := c.Timings(time.Time{})
	if len(list) != 2 || list[0].Step != "slow" || list[1].Step != "fast" {
		t.Fatalf("%+v; want slow, then fast", list)
	}
	want := Timing{Kind: "Pod", Loop: "x", Step: "slow", Runs: 101, Failures: 1, Machine: list[0].Machine, Longest: 2 * time.Second,
		Waited: Quantiles{5 * time.Millisecond, 5 * time.Millisecond}, Worked: Quantiles{510 * time.Millisecond, time.Second}}
	if list[0] != want || c.Timing("Pod", "slow") != want {
		t.Errorf("slow: %+v\nwant  %+v", list[0], want)
	}
	if fast := list[1]; fast.Worked.P50 != 0 || fast.Worked.P99 != time.Millisecond {
		t.Errorf("fast: %+v", fast)
	}
	if recent := c.Timings(time.UnixMilli(400_000)); len(recent) != 1 || recent[0].Step != "fast" {
		t.Errorf("of late: %+v", recent)
	}
	if none := c.Timing("Pod", api.TargetReady); none.Runs != 0 || none.Worked.P99 != 0 {
		t.Errorf("of a step that never ran: %+v", none)
	}
}
