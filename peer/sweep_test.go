package peer

import (
	"maps"
	"slices"
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

// Nothing is taken back before the machine was looked over either, also of a pod that the
// disk knows nothing of: it may be older than all that runs.
func TestNothingIsTakenBackBeforeTheSweep(t *testing.T) {
	e, web := oneThatRuns(t)
	step, _ := web.kind.Graph.Step("network")
	undo := lifecycle.Run{Step: &step, Undo: true}
	if e.awaitsSweep(web, undo) {
		t.Error("it waits although the machine was looked over")
	}
	e.unswept = true
	if clear(e.effects.byID); !e.awaitsSweep(web, undo) {
		t.Error("the network would be taken from what may run")
	}
}

// A disk that is an older copy holds a promise of less from before an edit. It is made again:
// else what the pod was given since would be given away once more.
func TestAPromiseFromBeforeAnEdit(t *testing.T) {
	e, web := oneThatRuns(t)
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

// The machine whose disk was put back has given the rest to another pod before it learns of
// the edit: the edited pod waits then.
func TestAnOlderCopyGivesNothingTwice(t *testing.T) {
	c := newCluster(t, 2)
	c.run(time.Second)
	sized := func(name, cpu string) Edit {
		return pod(t, name, "\n  containers:\n    app: {image: localhost/hello:1, resources: {cpu: "+cpu+", memory: 64Mi}}\n")
	}
	c.write(1, sized("web", "100m"))
	n := c.cores[0]
	if seen, _ := n.core.See(podKey("web")); seen.Object.Results["admit"].Executor != "m1" {
		n = c.cores[1]
	}
	copied, local, high := slices.Clone(n.batch), maps.Clone(n.local), n.high
	c.write(n.i, sized("web", "1500m"))
	c.cutOff(n.i)
	n.batch, n.local, n.high, n.unsound = copied, local, high, true
	c.restart(n.i)
	c.write(n.i, sized("big", "1000m"))
	if c.status(n.i, "big")["status.ready"] != "true" {
		t.Fatalf("the other pod does not run: %s", c.stands("big"))
	}
	c.mend()
	c.run(5 * time.Second)
	if held := n.core.engine.held.total; held.CPU > 2000 {
		t.Errorf("m%d has promised %dm of its 2000m: %s", n.i, held.CPU, c.stands("web"))
	}
}

// oneThatRuns is the engine of a machine, and the one pod that runs there.
func oneThatRuns(t *testing.T) (*engine, *tracked) {
	t.Helper()
	c := newCluster(t, 1)
	c.run(time.Second)
	c.write(1, pod(t, "web", hello))
	e := c.cores[0].core.engine
	return e, e.objects[crdt.Ref(podKey("web"))]
}
