package peer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// ledgerKey is a loop and an object that it writes about.
type ledgerKey struct {
	ref  crdt.Ref
	loop string
}

// entryCounts are what this peer's loops wrote about objects lately: memory of this peer
// alone, since every peer counts what it writes itself.
type entryCounts map[ledgerKey]lifecycle.Entries

// maxCounts is beyond which those that have been earned again are forgotten.
const maxCounts = 4096

func (c entryCounts) note(ref crdt.Ref, loop string, now time.Time) {
	if len(c) >= maxCounts {
		for key, e := range c { // in any order: what is forgotten has no effect any more
			if !now.Before(e.Earned) {
				delete(c, key)
			}
		}
	}
	key := ledgerKey{ref, loop}
	c[key] = c[key].Note(now)
}

// Churn is how much one loop wrote lately.
type Churn struct {
	Loop             string
	Entries, Objects int
	// Worst is the object that it wrote most about, and how often.
	Worst        api.Key
	WorstEntries int
	// Held counts the objects about which it is held back here, its budget being spent.
	Held int
	// Budget is how many entries it may write at once about one object of the worst one's kind.
	Budget int
}

// Churn sums up who wrote the latest results that this peer knows of, since a time; the
// loop that wrote most comes first. from is the time of the oldest of them.
func (c *Core) Churn(since time.Time) (list []Churn, from time.Time) {
	counts := map[string]map[api.Key]int{}
	for _, h := range c.journal.recent.list {
		at := time.UnixMilli(crdt.Millis(h.HLC))
		if at.Before(since) {
			continue
		}
		if from.IsZero() {
			from = at
		}
		if counts[h.Loop] == nil {
			counts[h.Loop] = map[api.Key]int{}
		}
		counts[h.Loop][h.Key]++
	}
	for loop, objects := range counts {
		sum := churnOf(loop, objects)
		sum.Budget = c.engine.budget(sum.Worst.Kind, loop)
		list = append(list, sum)
	}
	for key, e := range c.engine.entries {
		if i := slices.IndexFunc(list, func(l Churn) bool { return l.Loop == key.loop }); i >= 0 && c.now.Before(e.Until(c.engine.budget(key.ref.Kind, key.loop))) {
			list[i].Held++
		}
	}
	slices.SortFunc(list, func(a, b Churn) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), strings.Compare(a.Loop, b.Loop))
	})
	return list, from
}

func (e *engine) budget(kind, loop string) int {
	if k, ok := e.kindOf(kind); ok {
		return k.Graph.Budget(loop)
	}
	return lifecycle.DefaultEntries
}

func churnOf(loop string, objects map[api.Key]int) Churn {
	sum := Churn{Loop: loop, Objects: len(objects)}
	for key, n := range objects {
		sum.Entries += n
		if n > sum.WorstEntries || n == sum.WorstEntries && key.Compare(sum.Worst) < 0 {
			sum.Worst, sum.WorstEntries = key, n
		}
	}
	return sum
}

// Verdicts counts the objects of each kind by where they stand.
func (c *Core) Verdicts() map[string]map[lifecycle.State]int {
	counts := map[string]map[lifecycle.State]int{}
	for _, t := range c.engine.objects {
		if t.life == 0 || t.gone {
			continue
		}
		if counts[t.ref.Kind] == nil {
			counts[t.ref.Kind] = map[lifecycle.State]int{}
		}
		counts[t.ref.Kind][c.engine.verdictOf(t)]++
	}
	return counts
}
