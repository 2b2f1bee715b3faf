package sim

import (
	"sync"
	"testing"
)

const kindSeeds = 60

// TestOwnKinds has people define a kind, hook steps and targets into lifecycles, and use all of
// that in every seed, while their programs come and go, and machines crash and are cut off.
func TestOwnKinds(t *testing.T) {
	all := newFigures()
	var mu sync.Mutex // guards all
	first, n := number(t, "FIRST", 1), number(t, "SEEDS", kindSeeds)
	each(first, n, func(seed uint64) {
		r, err := run(short(seed), hooks{weather: func(w *weather) { w.kinds = true }})
		mu.Lock()
		defer mu.Unlock()
		report(t, err)
		all.Add(r.Figures)
	})
	for _, what := range []string{
		"a loop of people's is called for db:volume", "a loop of people's is called for db:serve", "a loop of people's is called for db:note",
		"a loop of people's is called for audit:check", "a loop of people's takes a step back",
	} {
		if all.Sometimes[what] == 0 {
			t.Errorf("in %d seeds it never happened: %s", n, what)
		}
		t.Logf("%s: %d times", what, all.Sometimes[what])
	}
}
