package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/identity"
)

// A machine is removed, and all that it ever wrote is refused, though its results have the
// highest attempts: others do the steps again, once.
func TestRefusedResultsAreOutnumbered(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	for i := range 8 {
		for _, cpu := range []string{"100m", "110m", "120m", "130m"} {
			c.write(1, pod(t, fmt.Sprintf("web%d", i), fmt.Sprintf("\n  containers:\n    app: {image: 'localhost/hello:1', resources: {cpu: %s, memory: 64Mi}}\n", cpu)))
		}
	}
	refused := 0
	for i := range 8 {
		seen, _ := c.cores[0].core.See(podKey(fmt.Sprintf("web%d", i)))
		if r := seen.Object.Results["schedule"]; r.Executor == "m3" && r.Attempt > 2 {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("m3 placed none of the pods")
	}
	before := c.cores[0].core.journal.entries()
	c.cutOff(3)
	c.remove(1, 3)
	c.run(20 * time.Second)
	for i := range 8 {
		name := fmt.Sprintf("web%d", i)
		if s := c.status(1, name); s["status.ready"] != "true" {
			t.Errorf("%s: %s", name, c.stands(name))
		}
		for _, n := range c.cores[:2] {
			seen, _ := n.core.See(podKey(name))
			for step, r := range seen.Object.Results {
				if r.Executor != "m1" && r.Executor != "m2" {
					t.Errorf("step %s of %s counts as done by %s, seen from m%d", step, name, r.Executor, n.i)
				}
			}
		}
	}
	if a, b := c.cores[0].core.journal.state.Hash(), c.cores[1].core.journal.state.Hash(); a != b {
		t.Errorf("m1 has state %v, m2 has %v", a, b)
	}
	if c.cores[0].rebuilt == 0 || c.cores[1].rebuilt == 0 {
		t.Error("what m3 had written was not judged again")
	}
	if n := c.cores[0].core.journal.entries() - before; n > 150 {
		t.Errorf("%d entries were written to do again what m3 had done", n)
	}
}

// What a machine writes after it left is refused, and nobody has to fold a log again for
// that: the cut holds all that was written before.
func TestLeavingCostsNothing(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", hello))
	n := c.cores[2]
	n.core.Step(c.now, Manage{Request: 9, Do: func(log *identity.Log, now time.Time) error {
		_, err := log.RemoveMachine(n.key, identity.ClockAt(now), identity.Remove{Machine: n.core.self.ID, Cut: n.core.CutOf(n.core.self.ID)})
		return err
	}})
	n.core.Step(c.now, Write{Request: 1, Author: "user:alice", Edits: []Edit{pod(t, "late", hello)}})
	c.run(5 * time.Second)
	for _, other := range c.cores[:2] {
		if other.rebuilt > 0 {
			t.Errorf("m%d folded its log again", other.i)
		}
		if _, ok := other.core.See(podKey("late")); ok {
			t.Errorf("m%d has a pod that was made after its machine left", other.i)
		}
		if own := n.core.journal.actor; other.core.journal.log.Head(own) != n.core.journal.log.Head(own) {
			t.Errorf("m%d lacks entries of m3, refused or not", other.i)
		}
	}
}
