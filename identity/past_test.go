package identity

import (
	"testing"

	"pgregory.net/rapid"
)

// TestPast holds spans against plain sets.
func TestPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 20)
		a, b := points.Draw(t, "a"), points.Draw(t, "b")
		single := points.Draw(t, "single")
		p := union([]past{union(nil, a), union(nil, b)}, single)
		want := map[int]bool{}
		for _, list := range [][]int{a, b, single} {
			for _, i := range list {
				want[i] = true
			}
		}
		for i := range 42 {
			if p.has(i) != want[i] {
				t.Fatalf("%v has %d: %v", p, i, p.has(i))
			}
		}
		for i := 1; i < len(p); i++ {
			if p[i-1].to >= p[i].from {
				t.Fatalf("spans touch: %v", p)
			}
		}
	})
}
