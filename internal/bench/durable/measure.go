package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Write makes one value durable for a client and returns once it is acknowledged.
// It is called by one goroutine per client.
type Write func(ctx context.Context, client int) error

// Result is what one run of one side came to.
type Result struct {
	Writes  int
	Elapsed time.Duration
	P50     time.Duration
	P99     time.Duration
	CPU     time.Duration // of all writes, clients included
}

// PerSecond is the rate of acknowledged writes.
func (r Result) PerSecond() float64 { return float64(r.Writes) / r.Elapsed.Seconds() }

// CPUEach is the CPU time of one write.
func (r Result) CPUEach() time.Duration { return r.CPU / time.Duration(max(r.Writes, 1)) }

// String is the result as one line.
func (r Result) String() string {
	return fmt.Sprintf("%8.0f/s  p50 %v  p99 %v  CPU %v each", r.PerSecond(),
		r.P50.Round(10*time.Microsecond), r.P99.Round(10*time.Microsecond), r.CPUEach().Round(100*time.Nanosecond))
}

// Measure lets so many clients write for a time.
func Measure(ctx context.Context, clients int, lasting time.Duration, write Write) (Result, error) {
	if clients < 1 || lasting <= 0 {
		return Result{}, errors.New("measure needs at least one client and some time")
	}
	latencies := make([][]time.Duration, clients)
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	end := start.Add(lasting)
	for client := range clients {
		group.Go(func() (err error) {
			latencies[client], err = writeUntil(ctx, end, client, write)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	return summarize(latencies, time.Since(start)), nil
}

func writeUntil(ctx context.Context, end time.Time, client int, write Write) ([]time.Duration, error) {
	var latencies []time.Duration
	for last := time.Now(); last.Before(end); {
		if err := write(ctx, client); err != nil {
			return nil, fmt.Errorf("client %d: write %d: %w", client, len(latencies)+1, err)
		}
		now := time.Now()
		latencies = append(latencies, now.Sub(last))
		last = now
	}
	return latencies, nil
}

func summarize(latencies [][]time.Duration, elapsed time.Duration) Result {
	all := slices.Concat(latencies...)
	slices.Sort(all)
	r := Result{Writes: len(all), Elapsed: elapsed}
	if len(all) > 0 {
		r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return r
}
