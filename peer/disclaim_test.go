package peer

import (
	"errors"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// databases are what a program makes outside, by the identity of the object it is for.
func databases(h *programs) map[string]bool {
	there := map[string]bool{}
	h.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
		if c.Step == "provision" {
			there[c.Inputs.ID] = !c.Undo
		}
		return nil, nil
	}
	return there
}

// hear hands a machine what another one wrote, though they are apart.
func (c *cluster) hear(to, from int) {
	c.t.Helper()
	for _, b := range c.cores[from-1].batch {
		if b.Actor == c.cores[from-1].core.journal.actor {
			c.cores[to-1].core.Step(c.now, Received{From: c.cores[from-1].core.self.ID, Message: Push{Batches: [][]byte{b.Encode()}, Fresh: true}})
		}
	}
	c.run(2 * time.Second)
}

// twoOfOneName has m4 make a database alone and delete it, and another machine one of the
// same name, alone, which hears of the other's creation only: it takes its own down. Between
// that, meanwhile happens. Then again happens, and all meet.
func twoOfOneName(t *testing.T, maker int, meanwhile func(c *cluster, h *programs), again func(c *cluster)) {
	t.Helper()
	c := newCluster(t, 4)
	h := c.attach("db")
	there := databases(h)
	c.run(3 * time.Second)
	c.mustApply(1, databaseKind)
	c.split(4)
	c.split(maker)
	c.mustApply(4, mainDatabase)
	c.mustApply(maker, mainDatabase)
	lost, _ := c.cores[maker-1].core.See(mainKey)
	if !there[lost.Object.ID] {
		t.Fatalf("m%d has not made it", maker)
	}
	meanwhile(c, h)
	c.hear(maker, 4)
	if seen, _ := c.cores[maker-1].core.See(mainKey); seen.Object.ID == lost.Object.ID || there[lost.Object.ID] {
		t.Fatalf("m%d: the one that came later keeps the name, or what was made for it", maker)
	}
	clear(there)
	c.write(4, Edit{Kind: EditDelete, Key: mainKey})
	again(c)
	c.heal()
	c.run(40 * time.Second)
	for i, n := range c.cores {
		seen, ok := n.core.See(mainKey)
		if !ok || seen.Object.ID != lost.Object.ID || seen.Eval.Verdict != lifecycle.Converged {
			t.Fatalf("made on m%d; m%d sees %v %s", maker, i+1, ok, seen.Eval.Verdict)
		}
	}
	if !there[lost.Object.ID] {
		t.Errorf("made on m%d: it is converged, and there is no database", maker)
	}
}

// A life that was taken down and has its name again is made again, whoever executes it by
// then.
func TestLoserThatComesBackIsMadeAgain(t *testing.T) {
	for maker := 1; maker <= 3; maker++ {
		twoOfOneName(t, maker, func(*cluster, *programs) {}, func(*cluster) {})
	}
}

// The same when taking it down did not come to its end: nobody knows how much is left.
func TestLoserThatComesBackHalfTakenDown(t *testing.T) {
	for maker := 1; maker <= 3; maker++ {
		twoOfOneName(t, maker, func(_ *cluster, h *programs) {
			do := h.do
			h.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
				out, err := do(c)
				if c.Undo {
					err = errors.New("it does not answer any more")
				}
				return out, err
			}
		}, func(c *cluster) { c.restart(maker) })
	}
}

// The same when others made it anew before it was taken down where it was made first, and
// could not hear of that.
func TestLoserThatOthersMadeMeanwhile(t *testing.T) {
	for maker := 1; maker <= 3; maker++ {
		twoOfOneName(t, maker, func(c *cluster, h *programs) {
			other := maker%3 + 1
			h.calls = nil
			c.hear(other, maker)
			c.write(other, Edit{Kind: EditPatch, Key: mainKey, Fields: api.Fields{"spec.size": `"2Gi"`}})
			c.run(2 * time.Second)
			if len(h.calls) == 0 {
				t.Fatal("nobody made it anew")
			}
		}, func(*cluster) {})
	}
}
