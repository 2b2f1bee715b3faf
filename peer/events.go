package peer

import (
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// maxEvents is how many of the latest results are kept at hand for `peer events`, at
// least; at most an eighth more.
const maxEvents = 4096

// Happened is one result of a step.
type Happened struct {
	// Arrived numbers the results in the order in which this peer came to know them.
	Arrived  uint64
	Key      api.Key
	HLC      uint64
	Loop     string
	Step     string
	Machine  string
	Register crdt.Register
}

// recent keeps the latest results in the order of their clocks, not of their arrival.
type recent struct {
	list    []*Happened
	arrived uint64
}

func (r *recent) note(c *Core, ch crdt.Change) {
	for _, op := range ch.Ops {
		if op.Kind != crdt.OpResult || op.Register == nil {
			continue
		}
		if len(r.list) >= maxEvents && ch.HLC < r.list[0].HLC {
			continue // older than all that are kept
		}
		r.arrived++
		h := &Happened{
			Arrived: r.arrived, Key: api.Key(ch.Object), HLC: ch.HLC, Loop: strings.TrimPrefix(ch.Author, "loop:"),
			Step: op.Path, Machine: c.nameOf(op.Register.Executor), Register: *op.Register,
		}
		i, _ := slices.BinarySearchFunc(r.list, h, func(a, b *Happened) int {
			if a.HLC <= b.HLC {
				return -1
			}
			return 1
		})
		r.list = slices.Insert(r.list, i, h)
	}
	if len(r.list) > maxEvents+maxEvents/8 { // not each time: it moves all that stay
		r.list = slices.Delete(r.list, 0, len(r.list)-maxEvents)
	}
}

// objects are those whose results are among the latest.
func (r *recent) objects() map[crdt.Ref]bool {
	objects := map[crdt.Ref]bool{}
	var last api.Key // an object's steps follow each other
	for _, h := range r.list {
		if h.Key != last {
			objects[crdt.Ref(h.Key)] = true
			last = h.Key
		}
	}
	return objects
}

// Events returns the results of steps that this peer came to know after the one with
// the number, oldest first by their clocks, and the latest number.
func (c *Core) Events(after uint64) (list []Happened, latest uint64) {
	for _, h := range c.journal.recent.list {
		if h.Arrived > after {
			list = append(list, *h)
		}
	}
	return list, c.journal.recent.arrived
}
