package peer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
)

func TestRootsKeepWhatARollbackNeeds(t *testing.T) {
	c := newCluster(t, 2)
	c.run(3 * time.Second)
	edit := func(tag, args string) {
		t.Helper()
		if a := c.write(1, pod(t, "web", fmt.Sprintf("  containers: {app: {image: \"localhost/hello:%s\", args: [%s]}}\n", tag, args))); a.Err != nil {
			t.Fatal(a.Err)
		}
		c.run(5 * time.Second)
	}
	key := api.Key{Kind: "Pod", Namespace: "default", Name: "web"}
	home := func() int {
		t.Helper()
		for i := range 2 {
			if slices.Contains(c.cores[i].core.Placed(), key) {
				return i
			}
		}
		t.Fatal("the pod is on no machine")
		return 0
	}
	want := func(images ...string) {
		t.Helper()
		h := home()
		if got := c.cores[h].core.Roots(key); !slices.Equal(got.Images, images) || len(got.Digests) != 1 {
			t.Errorf("its machine keeps %+v, want %v", got, images)
		}
		if got := c.cores[1-h].core.Roots(key); len(got.Images)+len(got.Digests) > 0 {
			t.Errorf("the other machine keeps %+v", got)
		}
	}
	edit("1", "a")
	want("localhost/hello:1")
	edit("2", "a")
	want("localhost/hello:1", "localhost/hello:2")
	edit("3", "a")
	want("localhost/hello:2", "localhost/hello:3")
	edit("3", "b")
	want("localhost/hello:3")

	if a := c.write(2, Edit{Kind: EditDelete, Key: key}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	for i := range 2 {
		if got := c.cores[i].core.Roots(key); len(got.Images)+len(got.Digests) > 0 {
			t.Errorf("m%d keeps %+v of a pod that is gone", i+1, got)
		}
	}
}
