package peer

import (
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// maxEvents bounds the latest results that are kept at hand for `peer events`.
const maxEvents = 4096

// Happened is one result of a step.
type Happened struct {
	Key      api.Key
	HLC      uint64
	Loop     string
	Step     string
	Machine  string
	Register crdt.Register
}

// recent keeps the latest results in the order of their clocks, not of their arrival.
type recent struct{ list []Happened }

func (r *recent) note(c *Core, ch crdt.Change) {
	for _, op := range ch.Ops {
		if op.Kind != crdt.OpResult || op.Register == nil {
			continue
		}
		h := Happened{
			Key: api.Key(ch.Object), HLC: ch.HLC, Loop: strings.TrimPrefix(ch.Author, "loop:"),
			Step: op.Path, Machine: c.nameOf(op.Register.Executor), Register: *op.Register,
		}
		i, _ := slices.BinarySearchFunc(r.list, h, func(a, b Happened) int {
			if a.HLC <= b.HLC {
				return -1
			}
			return 1
		})
		r.list = slices.Insert(r.list, i, h)
	}
	if over := len(r.list) - maxEvents; over > 0 {
		r.list = slices.Delete(r.list, 0, over)
	}
}

// Events returns the results of steps after a clock reading, oldest first.
func (c *Core) Events(after uint64) []Happened {
	i, _ := slices.BinarySearchFunc(c.journal.recent.list, after, func(h Happened, at uint64) int {
		if h.HLC <= at {
			return -1
		}
		return 1
	})
	return slices.Clone(c.journal.recent.list[i:])
}
