package sim

import (
	"strings"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// The checker of entry budgets takes what a loop earned, and catches one that writes on.
func TestCheckerCatchesALoopBeyondItsBudget(t *testing.T) {
	w, err := newWorld(Config{Seed: 1, Peers: 3, Duration: time.Minute, Calm: true}, hooks{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(pause time.Duration, phase crdt.Phase) {
		w.now += pause
		w.check.spends(crdt.ActorID{1}, &crdt.Change{
			Object: crdt.Ref{Kind: "Pod", Namespace: "default", Name: "web"}, Author: "loop:readiness", HLC: uint64(w.now.Milliseconds()) << 16,
			Ops: []crdt.Op{{Kind: crdt.OpResult, Path: "ready", Register: &crdt.Register{Phase: phase}}},
		})
	}
	for range 10 * lifecycle.DefaultEntries {
		write(lifecycle.EntryEvery, crdt.PhaseDone)
		write(0, crdt.PhaseUndone)
	}
	if w.violation != nil {
		t.Fatalf("a loop that writes as fast as it earns is refused: %s", w.violation.Message)
	}
	for range lifecycle.DefaultEntries + 20 {
		write(time.Millisecond, crdt.PhaseDone)
	}
	if w.violation == nil || w.violation.Invariant != 11 || !strings.HasPrefix(w.violation.Message, "loop:readiness has written") {
		t.Errorf("a loop that writes a thousand times a second is not caught: %+v", w.violation)
	}
}
