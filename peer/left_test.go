package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// When a machine falls silent a peer looks again at what is on it and at what is now this
// peer's to decide, not at what others go on with.
func TestWhatIsLeftToOthers(t *testing.T) {
	c := newCluster(t, 3)
	c.run(time.Second)
	var edits []Edit
	for i := range 40 {
		edits = append(edits, Edit{Kind: EditApply, Key: api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i)}, Fields: api.Fields{"spec.containers.app.image": `"a"`}})
	}
	c.write(1, edits...)
	core := c.cores[0].core
	if len(core.engine.queue) > 0 {
		t.Fatalf("%d objects are still to be looked at", len(core.engine.queue))
	}
	silent := c.cores[2].core.self
	core.Step(c.now, Membership{Machine: silent.ID, Alive: false})
	inherited, on, left := 0, 0, 0
	for _, o := range core.engine.tracked("Pod") {
		executor := core.engine.executor(o)
		switch {
		case o.placed == silent.Name:
			if on++; !o.marked {
				t.Errorf("%s is on the silent machine, and is not looked at", o.ref.Name)
			}
		case o.left && executor == core.self.Name:
			if inherited++; !o.marked {
				t.Errorf("%s is this peer's to decide now, and is not looked at", o.ref.Name)
			}
		case o.left:
			if left++; o.marked {
				t.Errorf("%s is %s's to decide, on %s, and is looked at", o.ref.Name, executor, o.placed)
			}
		}
	}
	if on == 0 || inherited == 0 || left == 0 {
		t.Errorf("%d on the silent machine, %d inherited, %d left: nothing was tested", on, inherited, left)
	}
}
