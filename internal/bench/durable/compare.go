package durable

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Comparison is how two sides are run against each other.
type Comparison struct {
	Clients int
	Rounds  int           // each side runs once in each round, in turn
	Lasting time.Duration // of one run
	Out     io.Writer     // the report, one line a run and the ratios
}

// Side is one of two that are compared.
type Side struct {
	Name  string
	Write Write
	// CPU is the CPU time that the side has used so far: its server's, and its clients', which
	// share the cores with it.
	CPU func() (time.Duration, error)
}

// Ratios say how the first side stands to the second, by the medians of all rounds.
type Ratios struct {
	Rate float64 // writes per second
	P99  float64 // latency: below 1, the first side is faster
	CPU  float64 // CPU time of a write, clients included, which others' load hardly alters
}

// Compare measures both sides and reports.
func (c Comparison) Compare(ctx context.Context, ours, theirs Side) (Ratios, error) {
	results := map[string][]Result{}
	for round := range c.Rounds {
		for _, side := range []Side{ours, theirs} {
			r, err := c.measure(ctx, side)
			if err != nil {
				return Ratios{}, fmt.Errorf("measure %s: %w", side.Name, err)
			}
			results[side.Name] = append(results[side.Name], r)
			fmt.Fprintf(c.Out, "round %d  %-10s %v\n", round+1, side.Name, r)
		}
	}
	ratio := func(value func(Result) float64) float64 {
		return median(results[ours.Name], value) / median(results[theirs.Name], value)
	}
	ratios := Ratios{
		Rate: ratio(Result.PerSecond),
		P99:  ratio(func(r Result) float64 { return r.P99.Seconds() }),
		CPU:  ratio(func(r Result) float64 { return r.CPUEach().Seconds() }),
	}
	_, err := fmt.Fprintf(c.Out, "%s / %s: %.2f x the rate, %.2f x the p99 latency, %.2f x the CPU time of each (medians of %d rounds, %d clients)\n",
		ours.Name, theirs.Name, ratios.Rate, ratios.P99, ratios.CPU, c.Rounds, c.Clients)
	return ratios, err
}

func (c Comparison) measure(ctx context.Context, side Side) (Result, error) {
	before, err := side.CPU()
	if err != nil {
		return Result{}, err
	}
	r, err := Measure(ctx, c.Clients, c.Lasting, side.Write)
	if err != nil {
		return r, err
	}
	after, err := side.CPU()
	r.CPU = after - before
	return r, err
}

func median(results []Result, value func(Result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
