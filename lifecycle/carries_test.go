package lifecycle

import (
	"testing"
	"time"
)

// carried is a graph in which a container stands on a network, and an environment of one
// machine in which every machine is alive and nothing runs.
func carried(t *testing.T, effects func(step string) bool) (*Graph, Env) {
	t.Helper()
	g, err := parseGraph(`
		step home      decides on=executor writes=status.machine reads=spec.size
		step network   acts undo requires=home
		step container acts undo requires=network
		target running requires=container`, map[string]bool{}, func(Step, Inputs) Outputs { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return g, Env{
		Self: "a", Executor: "c", Now: time.Unix(0, 0),
		Member: func(string) Member { return Member{Alive: true} }, Removed: func(string) bool { return false },
		Running: func(string) (Running, bool) { return Running{}, false }, Adopt: func(string) bool { return false },
		Effects: effects, MayRetry: func(string) bool { return false },
	}
}

// TestWhatCarriesStays: a machine made the network and the container; of the network
// another machine has told since, and the object belongs nowhere for the moment. The
// network stays as long as the container stands on it, and goes behind it.
func TestWhatCarriesStays(t *testing.T) {
	made := map[string]bool{"network": true, "container": true}
	g, env := carried(t, func(step string) bool { return made[step] })
	o := &Object{Results: map[string]Result{
		"network":   {Attempt: 2, Phase: PhaseDone, Executor: "b"},
		"container": {Attempt: 1, Phase: PhaseDone, Executor: "a"},
	}}
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

// TestOneOfTwoGoesOn: an object was brought up by two machines in two parts of a cluster,
// and then an edit left no machine that can have it. It goes on at the one that its
// results tell of; the other takes back what it made, though the object belongs there.
func TestOneOfTwoGoesOn(t *testing.T) {
	made := map[string]map[string]bool{"a": {"network": true, "container": true}, "b": {"network": true, "container": true}}
	o := &Object{Results: map[string]Result{
		"network":   {Attempt: 2, Phase: PhaseDone, Executor: "b"},
		"container": {Attempt: 1, Phase: PhaseDone, Executor: "b"},
	}}
	evaluate := func(self string) Evaluation {
		g, env := carried(t, func(step string) bool { return made[self][step] })
		env.Self, env.Machine = self, "a"
		return g.Evaluate(o, "running", env)
	}
	o.Results["home"] = Result{
		Attempt: 2, Phase: PhaseFailed, Executor: "c", Reads: evaluate("c").Run[0].Reads,
		Outputs: map[string]string{"status.machine": `"a"`},
	}
	for _, want := range []string{"container", "network"} {
		e := evaluate("a")
		if len(e.Run) != 1 || e.Run[0].Step.Name != want || !e.Run[0].Undo || !e.Run[0].Stray {
			t.Fatalf("a does %+v; want it to take back its %s, alone", e.Run, want)
		}
		made["a"][want] = false
		if e := evaluate("b"); len(e.Run) > 0 {
			t.Fatalf("b does %+v; want nothing: it goes on there", e.Run)
		}
	}
}

// TestWhatFailsHereGoesOnThere: of an object that two machines brought up, the one where it
// belongs can't do its network again. The container of the other one counts, and goes on
// until it can; its own is taken back.
func TestWhatFailsHereGoesOnThere(t *testing.T) {
	made := map[string]bool{"container": true}
	g, env := carried(t, func(step string) bool { return made[step] })
	env.Machine = "a"
	o := &Object{Results: map[string]Result{"container": {Attempt: 1, Phase: PhaseDone, Executor: "b"}}}
	done := func(step string, as string, r Result) {
		env.Self = as
		for _, run := range g.Evaluate(o, "running", env).Run {
			if run.Step.Name == step {
				r.Reads = run.Reads
			}
		}
		r.Executor, r.Attempt = as, 1
		o.Results[step] = r
	}
	done("home", "c", Result{Phase: PhaseDone, Outputs: map[string]string{"status.machine": `"a"`}})
	done("network", "a", Result{Phase: PhaseFailed, RetryAt: env.Now.Add(time.Minute)})
	e := g.Evaluate(o, "running", env)
	if len(e.Run) != 1 || e.Run[0].Step.Name != "container" || !e.Run[0].Undo || !e.Run[0].Stray {
		t.Fatalf("a does %+v; want it to take back its container", e.Run)
	}
}
