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

// Ratios say how the first side stands to the second, by the medians of all rounds.
type Ratios struct {
	Rate float64 // writes per second
	P99  float64 // latency: below 1, the first side is faster
}

// Compare measures both sides and reports.
func (c Comparison) Compare(ctx context.Context, name string, ours Write, other string, theirs Write) (Ratios, error) {
	var a, b []Result
	for round := range c.Rounds {
		for _, side := range []struct {
			name    string
			write   Write
			results *[]Result
		}{{name, ours, &a}, {other, theirs, &b}} {
			r, err := Measure(ctx, c.Clients, c.Lasting, side.write)
			if err != nil {
				return Ratios{}, fmt.Errorf("measure %s: %w", side.name, err)
			}
			*side.results = append(*side.results, r)
			fmt.Fprintf(c.Out, "round %d  %-10s %v\n", round+1, side.name, r)
		}
	}
	rate := func(r Result) float64 { return r.PerSecond() }
	p99 := func(r Result) float64 { return r.P99.Seconds() }
	ratios := Ratios{
		Rate: median(a, rate) / median(b, rate),
		P99:  median(a, p99) / median(b, p99),
	}
	_, err := fmt.Fprintf(c.Out, "%s / %s: %.2f x the writes/s, %.2f x the p99 latency (medians of %d rounds, %d clients)\n",
		name, other, ratios.Rate, ratios.P99, c.Rounds, c.Clients)
	return ratios, err
}

func median(results []Result, value func(Result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
