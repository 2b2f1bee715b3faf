package lifecycle

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A person can pass over a step whose undo hangs: it is cancelled, and no longer holds
// the object up.
func TestSkippingCancelsAnUndoThatHangs(t *testing.T) {
	undo := func(context.Context, Host, Inputs) error { return nil }
	do := func(context.Context, Host, Inputs) (Outputs, error) { return nil, nil }
	g, err := NewGraph("Test", nil, []Loop{{Name: "keep", Kind: "Test", Steps: []Step{{Name: "lock", Goal: true, Timeout: time.Minute, Do: do, Undo: undo}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := &Object{ID: "1", Deleted: true, Results: map[string]Result{"lock": {Phase: PhaseDone, Executor: "a", Attempt: 1}}}
	never := func(string) bool { return false }
	for _, skips := range []bool{false, true} {
		e := g.Evaluate(o, Deleted, Env{
			Self: "a", Executor: "a", Now: time.Unix(100, 0),
			Member: func(string) Member { return Member{Alive: true} }, Removed: never, Adopt: never, Effects: never, MayRetry: never,
			Running: func(string) (Running, bool) { return Running{Undo: true, Since: time.Unix(50, 0)}, true },
			Skip:    func(string) bool { return skips },
		})
		if e.Gone != skips || slices.Contains(e.Cancel, "lock") != skips {
			t.Errorf("skip %t: gone %t, cancels %q; it is %+v", skips, e.Gone, e.Cancel, e.Steps[0])
		}
	}
}
