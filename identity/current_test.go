package identity

import (
	"crypto/ed25519"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"starling.dev/starling/crdt"
)

// current hands the latest snapshot from the goroutine that owns the log to all
// others. It implements [Trust], so that a handshake is judged by what is known now.
type current struct{ latest atomic.Pointer[Snapshot] }

// newCurrent begins with a snapshot.
func newCurrent(s *Snapshot) *current {
	c := &current{}
	c.Set(s)
	return c
}

// Set replaces the snapshot; called by the log's owner whenever the log grew.
func (c *current) Set(s *Snapshot) { c.latest.Store(s) }

// Snapshot returns the latest snapshot.
func (c *current) Snapshot() *Snapshot { return c.latest.Load() }

// Admitted finds a machine by its key if it is a member now.
func (c *current) Admitted(pub ed25519.PublicKey) (Machine, bool) {
	return c.Snapshot().Admitted(pub)
}

// TestSnapshotWhileLogGrows: readers of a snapshot see one state, whatever the log's
// owner does meanwhile. The race detector sees whether they share anything.
func TestSnapshotWhileLogGrows(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	current := newCurrent(l.Snapshot())
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
