package peer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/crdt"
)

// Timing sums up the latest results of one step, over all objects of its kind and on all
// machines.
type Timing struct {
	Kind, Loop, Step string
	// Runs counts the attempts that ended, Failures those of them that failed.
	Runs, Failures int
	Waited, Worked Quantiles
	// Machine and Longest are of the attempt that worked longest.
	Machine string
	Longest time.Duration
}

// Quantiles are the median and the 99th percentile.
type Quantiles struct{ P50, P99 time.Duration }

// sample is what the attempts at one step took.
type sample struct {
	Timing
	waited, worked []time.Duration
}

// Timings sums up the latest results of each step that this peer knows of, since a time, the
// slowest first: those whose median is the longest.
func (c *Core) Timings(since time.Time) []Timing {
	samples := map[[2]string]*sample{}
	for _, h := range c.journal.recent.list {
		if time.UnixMilli(crdt.Millis(h.HLC)).Before(since) {
			continue
		}
		key := [2]string{h.Key.Kind, h.Step}
		if samples[key] == nil {
			samples[key] = &sample{Timing: Timing{Kind: h.Key.Kind, Loop: h.Loop, Step: h.Step}}
		}
		samples[key].add(h)
	}
	var list []Timing
	for _, s := range samples {
		if s.Runs > 0 {
			list = append(list, s.sum())
		}
	}
	slices.SortFunc(list, func(a, b Timing) int {
		return cmp.Or(cmp.Compare(b.Worked.P50, a.Worked.P50), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Step, b.Step))
	})
	return list
}

// Timing sums up the latest results of one step of a kind.
func (c *Core) Timing(kind, step string) Timing {
	s := sample{Timing: Timing{Kind: kind, Step: step}}
	for _, h := range c.journal.recent.list {
		if h.Step == step && h.Key.Kind == kind {
			s.Loop = h.Loop
			s.add(h)
		}
	}
	return s.sum()
}

// StepsBefore names the steps that a step of a kind requires, through targets.
func (c *Core) StepsBefore(kind, step string) []string {
	k, ok := c.engine.kindOf(kind)
	if !ok {
		return nil
	}
	var steps []string
	for _, name := range k.Graph.RequiresOf(step) {
		if _, isStep := k.Graph.Step(name); isStep {
			steps = append(steps, name)
		} else {
			steps = append(steps, c.StepsBefore(kind, name)...)
		}
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// add counts an attempt that ended by itself.
func (s *sample) add(h *Happened) {
	r := h.Register
	if r.Phase != crdt.PhaseDone && r.Phase != crdt.PhaseFailed {
		return
	}
	s.Runs++
	if r.Phase == crdt.PhaseFailed {
		s.Failures++
	}
	worked := between(r.Started, r.Finished)
	s.worked = append(s.worked, worked)
	s.waited = append(s.waited, between(r.Queued, r.Started))
	if s.Machine == "" || worked > s.Longest {
		s.Machine, s.Longest = h.Machine, worked
	}
}

// between is never negative: the two may be readings of two machines' clocks.
func between(from, to int64) time.Duration {
	if from == 0 || to < from {
		return 0
	}
	return time.Duration(to-from) * time.Millisecond
}

func (s *sample) sum() Timing {
	s.Waited, s.Worked = quantiles(s.waited), quantiles(s.worked)
	return s.Timing
}

// quantiles are by nearest rank: each is a value that was measured.
func quantiles(list []time.Duration) Quantiles {
	if len(list) == 0 {
		return Quantiles{}
	}
	slices.Sort(list)
	rank := func(percent int) time.Duration { return list[(len(list)*percent+99)/100-1] }
	return Quantiles{P50: rank(50), P99: rank(99)}
}
