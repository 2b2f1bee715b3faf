package peer

import (
	"runtime"
	"testing"
)

// TestATurnTakesWhoIsAboutToPost: those who only wait for a processor to post what they
// have are not left to the next turn, with a sync of its own.
func TestATurnTakesWhoIsAboutToPost(t *testing.T) {
	t.Cleanup(func(before int) func() { return func() { runtime.GOMAXPROCS(before) } }(runtime.GOMAXPROCS(1)))
	d := &driver{l: &Loop{events: make(chan any, queueLimit)}}
	const posts = 20
	for range posts {
		go func() { d.l.events <- query{} }()
	}
	if d.drain(); len(d.queries) != posts {
		t.Fatalf("%d of %d are in the turn", len(d.queries), posts)
	}
}
