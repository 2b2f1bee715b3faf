package lifecycle

import (
	"testing"
	"time"
)

// TestWhatCarriesStays: a machine made the network and the container; of the network
// another machine has told since, and the object belongs nowhere for the moment. The
// network stays as long as the container stands on it, and goes behind it.
func TestWhatCarriesStays(t *testing.T) {
	g, err := parseGraph(`
		step home      decides on=executor writes=status.machine reads=spec.size
		step network   acts undo requires=home
		step container acts undo requires=network
		target running requires=container`, map[string]bool{}, func(Step, Inputs) Outputs { return nil })
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{"network": true, "container": true}
	o := &Object{Results: map[string]Result{
		"network":   {Attempt: 2, Phase: PhaseDone, Executor: "b"},
		"container": {Attempt: 1, Phase: PhaseDone, Executor: "a"},
	}}
	env := Env{
		Self: "a", Executor: "c", Now: time.Unix(0, 0),
		Member: func(string) Member { return Member{Alive: true} }, Removed: func(string) bool { return false },
		Running: func(string) (Running, bool) { return Running{}, false }, Adopt: func(string) bool { return false },
		Effects: func(step string) bool { return made[step] }, MayRetry: func(string) bool { return true },
	}
	if e := g.Evaluate(o, "running", env); len(e.Run) > 0 {
		t.Errorf("%s runs (undo %v); want nothing: it belongs nowhere", e.Run[0].Step.Name, e.Run[0].Undo)
	}
	for _, want := range []string{"container", "network"} {
		e := g.Evaluate(o, Deleted, env)
		if len(e.Run) != 1 || e.Run[0].Step.Name != want || !e.Run[0].Undo {
			t.Fatalf("on deletion %+v; want the %s to be taken back, alone", e.Run, want)
		}
		made[want] = false
		o.Results[want] = Result{Attempt: 3, Phase: PhaseUndone, Executor: "a"}
	}
}
