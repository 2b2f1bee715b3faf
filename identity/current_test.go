package identity

import (
	"slices"
	"sync"
	"testing"

	"starling.dev/starling/crdt"
)

// TestSnapshotWhileLogGrows: readers of a snapshot see one state, whatever the log's
// owner does meanwhile. The race detector sees whether they share anything.
func TestSnapshotWhileLogGrows(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	current := NewCurrent(l.Snapshot())
	old := current.Snapshot()
	want := show(old)
	at := crdt.Place{Machine: w.id("m2"), Head: testHead(1)}
	standing := old.Standing(at)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if got := show(old); got != want {
					t.Errorf("the snapshot became\n%s", got)
				}
				if _, ok := current.Admitted(publicOf(w.key("m1"))); !ok {
					t.Error("m1 was not admitted for a moment")
				}
				if got := old.Standing(at); !slices.Equal(got, standing) {
					t.Errorf("the standing became %v", got)
				}
			}
		})
	}
	for range 20 {
		_, err := l.RenameMachine(testKey("m1"), w.clock(), w.id("m1"), "n")
		must(t, err)
		current.Set(l.Snapshot())
	}
	_, err := l.RemoveMachine(testKey("m1"), w.clock(), Remove{Machine: w.id("m2")})
	must(t, err)
	wg.Wait()
	if slices.Equal(l.Snapshot().Standing(at), standing) {
		t.Fatal("the removal had no effect")
	}
}
