package peer

import (
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// pulls returns what a core asks of others in its next turn.
func pulls(c *Core) (all []Pull) {
	r := c.Ready()
	c.Advance()
	for _, e := range r.Send {
		if p, ok := e.Message.(Pull); ok {
			all = append(all, p)
		}
	}
	return all
}

// However often two peers compare their heads while an answer is on its way, what is
// missing is asked for once; the end of the answer asks on only if it brought something.
func TestOnePullAtATime(t *testing.T) {
	c := newCluster(t, 2)
	c.cut = map[[2]int]bool{{1, 2}: true, {2, 1}: true}
	c.write(1, pod(t, "a", "  containers: {app: {image: localhost/hello:1}}\n"))
	c.write(1, pod(t, "b", "  containers: {app: {image: localhost/hello:1}}\n"))
	from, core := c.cores[0], c.cores[1].core
	vector := Vector{Heads: from.core.Heads(), Full: true}
	pulls(core)
	for range 3 {
		core.Step(c.now, Received{From: from.core.self.ID, Message: vector})
	}
	if asked := pulls(core); len(asked) != 1 || len(asked[0].Ranges) != 1 {
		t.Fatalf("three comparisons lead to %v, want one Pull of one range", asked)
	}
	first := from.batch[0]
	core.Step(c.now, Received{From: from.core.self.ID, Message: Push{Batches: [][]byte{first.Encode()}, Last: true}})
	if asked := pulls(core); len(asked) != 1 || asked[0].Ranges[0].From != first.Last()+1 {
		t.Fatalf("the end of an answer asks for %v, want what follows entry %d", asked, first.Last())
	}
	core.Step(c.now, Received{From: from.core.self.ID, Message: Push{Last: true}})
	if asked := pulls(core); len(asked) != 0 {
		t.Fatalf("an answer without anything new leads to %v at once", asked)
	}
	core.Step(c.now, Received{From: from.core.self.ID, Message: vector})
	if asked := pulls(core); len(asked) != 1 {
		t.Fatalf("the next comparison leads to %v, want one Pull", asked)
	}
}

// A Pull that is never answered is sent again, also to another peer.
func TestALostPullIsRepeated(t *testing.T) {
	c := newCluster(t, 3)
	core := c.cores[2].core
	vector := Vector{Heads: crdt.Heads{{1}: {Seq: 3, Hash: crdt.ID{1}}}, Full: true}
	c.run(2 * time.Second)
	ask := func(i int) int {
		core.Step(c.now, Received{From: c.cores[i].core.self.ID, Message: vector})
		return len(pulls(core))
	}
	if ask(0) != 1 || ask(1) != 0 {
		t.Error("what was asked of one peer is asked of another, too, or of none")
	}
	c.now = c.now.Add(pullPatience + time.Second)
	if ask(1) != 1 {
		t.Error("what nobody answered is not asked of another peer")
	}
}
