package sim

import (
	"fmt"
	"time"
)

// Run simulates one seed: a storm, then peace. An error that is a [*Violation] says
// which invariant did not hold.
func Run(cfg Config) (Report, error) { return run(cfg, hooks{}) }

func run(cfg Config, h hooks) (Report, error) {
	w, err := newWorld(cfg, h)
	if err != nil {
		return Report{}, err
	}
	for _, m := range w.machines {
		m.start()
	}
	w.runFor(warmUp)
	w.beginStorm()
	w.runFor(cfg.Duration)
	w.endStorm()
	report := Report{Config: cfg, Settled: w.check.settle()}
	if len(w.broken) > 0 && w.violation == nil {
		w.mendRest()
		report.Settled = w.check.settle()
	}
	report.Virtual = w.now
	w.figures.Entries = w.check.total
	w.figures.Objects = len(w.check.written)
	report.Figures, report.TraceHash = w.figures, w.trace.sum()
	if w.violation != nil {
		return report, w.violation
	}
	return report, nil
}

// warmUp is how long the cluster has to form before anything goes wrong.
const warmUp = 3 * time.Second

// RunTwice simulates a seed twice: the same seed must give the same trace.
func RunTwice(cfg Config) (Report, error) {
	first, err := Run(cfg)
	if err != nil {
		return first, err
	}
	cfg.Trace = nil
	again, err := Run(cfg)
	if err != nil {
		return again, fmt.Errorf("the second run of the same seed: %w", err)
	}
	if again.TraceHash != first.TraceHash {
		return first, &Violation{Invariant: 13, Message: "the seed gave two traces: " + first.TraceHash + " and " + again.TraceHash, Replay: cfg.Command()}
	}
	return first, nil
}
