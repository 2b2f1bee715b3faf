package peer

import (
	"fmt"
	"reflect"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// logOf reads what a node's disk holds about a pod up to a clock reading.
func (n *node) logOf(t *testing.T, name string, until uint64) past {
	t.Helper()
	p := past{ref: crdt.Ref{Kind: "Pod", Namespace: "default", Name: name}, until: until}
	var raw [][]byte
	for _, b := range n.batch {
		raw = append(raw, b.Encode())
	}
	if _, err := p.read(raw); err != nil {
		t.Fatal(err)
	}
	return p
}

// An object is as it was: with the results that it had then, though later ones have taken
// their place, and with the spec of then.
func TestAnObjectAsItWas(t *testing.T) {
	c := newCluster(t, 2)
	spec := "  containers:\n    app:\n      image: localhost/web:1\n      args: [%s]\n"
	first := c.write(1, pod(t, "web", fmt.Sprintf(spec, "one")))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	then := uint64(c.now.UnixMilli())<<16 - 1
	want := c.cores[0].core.engine.objects[crdt.Ref{Kind: "Pod", Namespace: "default", Name: "web"}].snap()
	for range 3 {
		c.write(2, pod(t, "web", fmt.Sprintf(spec, "two")))
		c.write(2, pod(t, "web", fmt.Sprintf(spec, "one")))
	}
	for _, n := range c.cores {
		p := n.logOf(t, "web", then)
		seen, err := n.core.seeAt(p)
		if err != nil || seen.Object == nil {
			t.Fatalf("m%d: %v, %v", n.i, seen.Object, err)
		}
		if got := seen.Object.Results["container"]; got.Attempt != 1 || got.Phase != lifecycle.PhaseDone || !got.Finished.Equal(want.Results["container"].Finished) {
			t.Errorf("m%d: the container was %+v, want %+v", n.i, got, want.Results["container"])
		}
		if seen.Folded.Current() != "1" || len(seen.Object.Results) != len(want.Results) {
			t.Errorf("m%d: rev %s with %d results, want rev 1 with %d", n.i, seen.Folded.Current(), len(seen.Object.Results), len(want.Results))
		}
		for _, s := range seen.Eval.Steps {
			if s.Step == api.TargetReady && s.State != lifecycle.StateDone {
				t.Errorf("m%d: %s was %s", n.i, s.Step, s.State)
			}
		}
		now, err := n.core.seeAt(n.logOf(t, "web", ^uint64(0)))
		if live, _ := n.core.See(api.Key(p.ref)); err != nil || !reflect.DeepEqual(now.Object.Results, live.Object.Results) || !reflect.DeepEqual(now.Object.Fields, live.Object.Fields) {
			t.Errorf("m%d: all of the log does not give the object of now: %v", n.i, err)
		}
	}
	if seen, err := c.cores[0].core.seeAt(c.cores[0].logOf(t, "web", 1)); err != nil || seen.Object != nil {
		t.Errorf("before it was created it was %v, %v", seen.Object, err)
	}
}
