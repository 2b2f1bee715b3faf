package lifecycle

import (
	"fmt"
	"time"

	"starling.dev/starling/api"
)

// DefaultEntries is how many entries a loop may write about one object at once. After
// that it earns one more each EntryEvery: in the long run it writes no faster, whatever
// makes its steps run again and again.
const (
	DefaultEntries = 60
	EntryEvery     = 2 * time.Second
)

// EntriesSpent is the code of a step that waits because its loop's entry budget for the
// object is spent.
const EntriesSpent = api.EntriesSpent

// Entries counts what one loop wrote about one object, as a leaky bucket: the time at which
// all that it wrote would be earned. The zero value has written nothing.
type Entries struct{ Earned time.Time }

// Note counts one entry.
func (e Entries) Note(now time.Time) Entries {
	if e.Earned.Before(now) {
		e.Earned = now
	}
	e.Earned = e.Earned.Add(EntryEvery)
	return e
}

// Until is when the next step may start: now or earlier if there is budget for the two
// entries that it may write, its start and its end.
func (e Entries) Until(budget int) time.Time {
	if e.Earned.IsZero() {
		return time.Time{}
	}
	return e.Earned.Add(-time.Duration(budget-2) * EntryEvery)
}

// Budget is how many entries a loop may write about one object of the kind at once.
func (g *Graph) Budget(loop string) int {
	if own := g.budgets[loop]; own > 0 {
		return own
	}
	return DefaultEntries
}

// earned is when the step's loop may write about the object, and its budget.
func (v *evaluator) earned(n *node) (until time.Time, budget int) {
	if v.env.Entries == nil {
		return until, 0
	}
	budget = v.g.Budget(n.loop)
	return v.env.Entries(n.loop).Until(budget), budget
}

// overdrawn: the loop has written so much about the object that the step waits. What is
// taken back never does.
func (v *evaluator) overdrawn(n *node, s *StepState) bool {
	until, budget := v.earned(n)
	if !v.env.Now.Before(until) {
		return false
	}
	s.State, s.Until, s.Code = StateRetrying, until, EntriesSpent
	s.Message = fmt.Sprintf("loop %s has spent its budget of %d entries about this object, and earns one more each %s", n.loop, budget, EntryEvery)
	v.wake(until)
	return true
}
