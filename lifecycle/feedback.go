package lifecycle

import (
	"time"

	"starling.dev/starling/api"
)

// DefaultBudget is how often in a row feedback may run a step again in one generation
// before it has to wait.
const DefaultBudget = 8

// FeedbackSpent is the code of a step that waits because its feedback budget is spent.
const FeedbackSpent = api.FeedbackSpent

// Feedback counts how often what stands further down made a step run again. A
// generation is told by everything else that the step reads: an edit, or a machine that
// stands otherwise, begins the next one.
type Feedback struct {
	Generation [32]byte
	Runs       int
	Last       time.Time
}

// Note counts one more run.
func (f Feedback) Note(generation [32]byte, now time.Time) Feedback {
	if f.Generation != generation {
		f = Feedback{Generation: generation}
	}
	f.Runs++
	f.Last = now
	return f
}

// until is when the next run may start: at once within the budget, then after the
// step's backoff. A step that feedback left alone for long starts afresh.
func (f Feedback) until(generation [32]byte, s *Step) time.Time {
	budget := s.budget()
	if f.Generation != generation || f.Runs < budget {
		return time.Time{}
	}
	return f.Last.Add(s.Retry.Delay(f.Runs - budget + 1))
}

func (s *Step) budget() int {
	if s.Budget == 0 {
		return DefaultBudget
	}
	return s.Budget
}

// Delay is the wait after so many failures in a row, before any jitter.
func (r Retry) Delay(failures int) time.Duration {
	base, most := r.Base, r.Max
	if base == 0 {
		base = time.Second
	}
	if most == 0 {
		most = time.Minute
	}
	d := base << min(max(failures-1, 0), 20)
	if d > most || d <= 0 {
		return most
	}
	return d
}
