package sim

import (
	"sync"
	"testing"
)

const rolloutSeeds = 500

// TestRollouts is invariant 12: somebody rolls a deployment in every seed, while machines
// crash and are cut off.
func TestRollouts(t *testing.T) {
	all := newFigures()
	var mu sync.Mutex // guards all
	first, n := number(t, "FIRST", 1), number(t, "SEEDS", rolloutSeeds)
	each(first, n, func(seed uint64) {
		cfg := short(seed)
		r, err := run(cfg, hooks{weather: func(w *weather) { w.roll = true }})
		mu.Lock()
		defer mu.Unlock()
		report(t, err)
		all.Add(r.Figures)
	})
	for _, what := range []string{"a deployment makes a pod", "a rollout takes a pod out of service", "a deletion is compacted"} {
		if all.Sometimes[what] < min(100, int(n)) {
			t.Errorf("%s: %d times in %d seeds", what, all.Sometimes[what], n)
		}
	}
	t.Logf("%d pods made, %d taken out of service to be changed or removed, %d deletions compacted", all.Sometimes["a deployment makes a pod"], all.Sometimes["a rollout takes a pod out of service"], all.Sometimes["a deletion is compacted"])
}
