package sim

import (
	"maps"
	"slices"
	"time"
)

// Figures count what a simulation did.
type Figures struct {
	Events, Turns, Commits, Messages, Lost, Bytes int
	Entries, Objects, Actions, Writes             int
	// Sometimes counts faults and recovery paths by name, so that a run of seeds can
	// prove that each was reached.
	Sometimes map[string]int
}

func newFigures() Figures { return Figures{Sometimes: map[string]int{}} }

// Add sums up another seed's figures.
func (f *Figures) Add(o Figures) {
	f.Events += o.Events
	f.Turns += o.Turns
	f.Commits += o.Commits
	f.Messages += o.Messages
	f.Lost += o.Lost
	f.Bytes += o.Bytes
	f.Entries += o.Entries
	f.Objects += o.Objects
	f.Actions += o.Actions
	f.Writes += o.Writes
	for _, name := range slices.Sorted(maps.Keys(o.Sometimes)) {
		f.Sometimes[name] += o.Sometimes[name]
	}
}

// Report is what came of a simulation.
type Report struct {
	Config  Config
	Figures Figures
	// Virtual is how much virtual time passed, Settled how long the cluster took to
	// come to rest once the faults had ceased.
	Virtual, Settled time.Duration
	// TraceHash is the hash of everything that happened: equal for equal seeds.
	TraceHash string
}

// sometimes counts that something interesting happened.
func (w *World) sometimes(what string) { w.figures.Sometimes[what]++ }
