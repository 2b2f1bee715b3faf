package loops

import (
	"context"
	"iter"
	"maps"
	"slices"

	"starling.dev/starling/lifecycle"
)

// act gives a step's action the host by its own type: the engine only hands it
// through.
func act(do func(context.Context, Host, lifecycle.Inputs) (lifecycle.Outputs, error)) func(context.Context, lifecycle.Host, lifecycle.Inputs) (lifecycle.Outputs, error) {
	return func(ctx context.Context, h lifecycle.Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
		return do(ctx, h.(Host), in)
	}
}

// undo is act for the way down.
func undo(do func(context.Context, Host, lifecycle.Inputs) error) func(context.Context, lifecycle.Host, lifecycle.Inputs) error {
	return func(ctx context.Context, h lifecycle.Host, in lifecycle.Inputs) error { return do(ctx, h.(Host), in) }
}

// sortedPairs ranges over a map in the order of its keys.
func sortedPairs(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
