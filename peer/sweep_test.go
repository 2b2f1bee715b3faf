package peer

import (
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// TestNothingNewBeforeTheSweep: a peer that starts promises nothing until its machine was
// looked over, and then counts what runs with what it was given in fact.
func TestNothingNewBeforeTheSweep(t *testing.T) {
	c := newCluster(t, 1)
	c.run(time.Second)
	c.write(1, pod(t, "old", hello))
	core := c.cores[0].core
	id := ""
	for pod := range c.cores[0].host.pods {
		id = pod
	}
	if !core.Holds(id, "container") || core.Holds(id, "image") || core.Holds("another", "container") {
		t.Fatalf("pod %q runs; the core holds its container: %v", id, core.Holds(id, "container"))
	}
	core.engine.unswept = true // as after a start
	const big = "\n  containers:\n    app: {image: localhost/hello:1, resources: {cpu: 1000m, memory: 64Mi}}\n"
	c.write(1, pod(t, "new", big))
	if s := c.status(1, "new"); len(c.cores[0].host.pods) != 1 || s["status.admitted"] != "" {
		t.Fatalf("it was begun before the machine was looked over: %v", s)
	}
	core.Step(c.now, Swept{Runs: map[string]lifecycle.Reservation{id: {CPU: 900, Memory: 1 << 20}}})
	if held := core.engine.held.byID[id]; held.CPU != 900 || held.Memory != 64<<20 {
		t.Errorf("counted as %+v; it runs with 900m, and 64Mi were promised", held)
	}
	c.run(5 * time.Second)
	if len(c.cores[0].host.pods) != 2 {
		t.Errorf("%d pods run after the sweep, want both: %v", len(c.cores[0].host.pods), c.status(1, "new"))
	}
}

// A disk that is an older copy holds a promise of less from before an edit. It is made again:
// else what the pod was given since would be given away once more.
func TestAPromiseFromBeforeAnEdit(t *testing.T) {
	c := newCluster(t, 1)
	c.run(time.Second)
	c.write(1, pod(t, "web", hello))
	e := c.cores[0].core.engine
	web := e.objects[crdt.Ref(podKey("web"))]
	id := web.snap().ID
	given := e.held.byID[id]
	less, more := given, given
	less.CPU--
	more.CPU++
	for _, tt := range []struct {
		held  lifecycle.Reservation
		again bool
	}{{given, false}, {more, false}, {less, true}, {lifecycle.Reservation{CPU: given.CPU}, true}} {
		if e.held.set(id, tt.held); e.adopts(web, "admit") != tt.again {
			t.Errorf("of %+v %+v is held; it is promised again: %v, want %v", given, tt.held, !tt.again, tt.again)
		}
	}
	if e.held.strike(id); !e.adopts(web, "admit") {
		t.Error("what is not held at all is not promised again")
	}
}
