package e2e

import (
	"context"
	"slices"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// A watch of people's changes alone tells of each of them once, and of nothing that loops
// do; without a selector it tells of that, too.
func TestWatchByAuthors(t *testing.T) {
	c := need(t)
	c.remove(t, "watched")
	pod := podSpec{name: "watched", args: serve}
	k := keyOf(t, "watched")
	watch := func(by ...string) func() []string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		states, err := c.lab.Client(2).Watch(ctx, &apiv1.WatchRequest{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name, By: by})
		if err != nil {
			t.Fatal(err)
		}
		return func() (revs []string) {
			defer states.Close()
			for states.Receive() {
				rev := states.Msg().GetObject().GetRev()
				if states.Msg().GetGone() {
					rev = "gone"
				}
				if revs = append(revs, rev); rev == "gone" && len(revs) > 1 {
					return revs
				}
			}
			t.Errorf("the watch of %v ended: %v", by, states.Err())
			return revs
		}
	}
	people, all := watch("user:*"), watch()
	c.apply(t, 1, "alice", pod.String())
	c.awaitReady(t, 2, "watched")
	pod.args = `[--listen, "[::]:8081"]`
	c.apply(t, 3, "bob", pod.String())
	c.awaitRev(t, 2, "watched", "2")
	c.must(t, 3, "delete", "watched")
	if got := people(); !slices.Equal(got, []string{"gone", "1", "2", "2", "gone"}) && !slices.Equal(got, []string{"gone", "1", "2", "gone"}) {
		t.Errorf("the watch of people's changes told of the revs %v; want one message for the creation, the edit and the deletion", got)
	}
	if got := all(); len(got) < 8 {
		t.Errorf("the watch of everything told of %v only", got)
	}
	refuses(t, c.ask(t, 1, "", "get", "pods", "-w", "--by", "alice"), "user:NAME")
}
