package lifecycle

import (
	"context"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// A step that acts and has children, and was only begun when its peer ended, is done again by
// whoever executes now; one that said what it waits for is not, until its time is over.
func TestBegunStepWithChildrenIsDoneAgain(t *testing.T) {
	g, err := NewGraph("Thing", []Target{{Name: "ready", Goal: true, Requires: []string{"serve"}}}, []Loop{{Name: "x", Kind: "Thing", Steps: []Step{{
		Name: "serve", Children: "Pod", Timeout: time.Minute,
		Do: func(context.Context, Host, Inputs) (Outputs, error) { return nil, nil },
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := &Object{Key: api.Key{Kind: "Thing", Name: "it"}, ID: "1", Rev: 1, Fields: api.Fields{}}
	never := func(string) bool { return false }
	env := Env{
		Self: "a", Executor: "a", Now: now, Removed: never, Adopt: never, Effects: never, MayRetry: never,
		Member:  func(string) Member { return Member{Alive: true} },
		Running: func(string) (Running, bool) { return Running{}, false },
	}
	for executor, begun := range map[string]bool{"a": true, "b": true, "c": false} {
		r := Result{Attempt: 1, Phase: PhaseStarted, Executor: executor, Started: now.Add(-time.Second), Reads: g.ReadsHash(o, "serve", "")}
		if !begun {
			r.Executor, r.Message = "b", "0 of 1 pods serve"
		}
		o.Results = map[string]Result{"serve": r}
		if e := g.Evaluate(o, "ready", env); (len(e.Run) == 1) != begun {
			t.Errorf("begun by %s, saying %q: %d runs, state %s", r.Executor, r.Message, len(e.Run), e.Steps[0].State)
		}
	}
}

// What this machine made for an object, and another took back for good without knowing of
// it, is taken back here as well: once the object is deleted, and not before.
func TestMadeHereAndTakenBackElsewhere(t *testing.T) {
	act := func(context.Context, Host, Inputs) (Outputs, error) { return nil, nil }
	g, err := NewGraph("Thing", []Target{{Name: "ready", Goal: true, Requires: []string{"volume"}}, {Name: "stopped", Goal: true}}, []Loop{{Name: "x", Kind: "Thing", Steps: []Step{{
		Name: "volume", Timeout: time.Minute, Do: act, Undo: func(context.Context, Host, Inputs) error { return nil },
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	never := func(string) bool { return false }
	for _, c := range []struct {
		goal  string
		made  bool
		phase Phase
		runs  int
	}{
		{Deleted, true, PhaseUndone, 1}, {Deleted, false, PhaseUndone, 0}, {"stopped", true, PhaseUndone, 0}, {Deleted, true, PhaseDone, 0},
	} {
		env := Env{
			Self: "a", Executor: "b", Now: time.Unix(1000, 0), Removed: never, Adopt: never, MayRetry: never,
			Effects: func(string) bool { return c.made },
			Member:  func(string) Member { return Member{Alive: true} },
			Running: func(string) (Running, bool) { return Running{}, false },
		}
		o := &Object{Key: api.Key{Kind: "Thing", Name: "it"}, ID: "1", Results: map[string]Result{"volume": {Attempt: 2, Phase: c.phase, Executor: "b"}}, Deleted: c.goal == Deleted}
		e := g.Evaluate(o, c.goal, env)
		if len(e.Run) != c.runs || c.runs == 1 && (!e.Run[0].Undo || !e.Run[0].Stray || e.Gone) {
			t.Errorf("%+v: %d runs, gone %v", c, len(e.Run), e.Gone)
		}
	}
}
