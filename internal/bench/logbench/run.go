package logbench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"starling.dev/starling/internal/bench/report"
)

// Sizes reads a list of numbers of objects.
func Sizes(text string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of objects", part)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// bench is one run of all measurements.
type bench struct {
	dir    string
	logger *slog.Logger
	rows   []report.Row
}

func (b *bench) row(what, target, measured, ratio string) {
	b.rows = append(b.rows, report.Row{What: what, Target: target, Measured: measured, Ratio: ratio})
	fmt.Fprintf(os.Stderr, "  %s: %s (target %s, ratio %s)\n", what, measured, target, ratio)
}

// Writes, Reads, Bytes and Healing measure what their names say.
func Writes(ctx context.Context) ([]report.Row, error)  { return one(ctx, (*bench).writes) }
func Reads(ctx context.Context) ([]report.Row, error)   { return one(ctx, (*bench).reads) }
func Bytes(ctx context.Context) ([]report.Row, error)   { return one(ctx, (*bench).bytes) }
func Healing(ctx context.Context) ([]report.Row, error) { return one(ctx, (*bench).healing) }

func one(ctx context.Context, part func(*bench, context.Context) error) ([]report.Row, error) {
	return run(ctx, func(b *bench) []func(context.Context) error {
		return []func(context.Context) error{func(ctx context.Context) error { return part(b, ctx) }}
	})
}

// RunSizes measures memory and restart with so many objects each.
func RunSizes(ctx context.Context, objects []int) ([]report.Row, error) {
	return run(ctx, func(b *bench) (parts []func(context.Context) error) {
		for _, n := range objects {
			parts = append(parts, func(ctx context.Context) error { return b.size(ctx, n) })
		}
		return parts
	})
}

func run(ctx context.Context, parts func(*bench) []func(context.Context) error) ([]report.Row, error) {
	dir, err := os.MkdirTemp("", "starling-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory to measure in: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var failed []string
	for _, part := range parts(b) {
		if err := part(ctx); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		return b.rows, fmt.Errorf("%s", strings.Join(failed, "; "))
	}
	return b.rows, nil
}
