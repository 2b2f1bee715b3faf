package peer

import (
	"testing"
	"time"

	"starling.dev/starling/api"
)

var webKey = api.Key{Kind: "Pod", Namespace: "default", Name: "web"}

// Two people edit while the cluster is cut. Each edit is valid; merged, a mount names a
// volume that is gone. The later of the two goes on running, the merge is shown as a
// conflict, and the next edit settles it.
func TestInvalidMergeKeepsTheLastValidSpec(t *testing.T) {
	c := newCluster(t, 2)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", `
  containers:
    app: {image: localhost/hello:1}
  volumes: {data: {type: directory}}
`))
	c.cut[[2]int{1, 2}], c.cut[[2]int{2, 1}] = true, true
	c.connect()
	c.write(1, Edit{Kind: EditPatch, Key: webKey, Fields: api.Fields{"spec.containers.app.mounts.data.path": `"/data"`}})
	c.write(2, Edit{Kind: EditPatch, Key: webKey, Unset: []string{"spec.volumes.data.type"}})
	clear(c.cut)
	c.connect()
	c.run(5 * time.Second)
	for _, n := range c.cores {
		seen, _ := n.core.See(webKey)
		if len(seen.Invalid) == 0 {
			t.Fatalf("m%d shows no conflict: %v", n.i, seen.Object.Fields)
		}
		if _, mounted := seen.Object.Fields["spec.containers.app.mounts.data.path"]; mounted {
			t.Errorf("m%d runs %v, want the later edit, which has no volume", n.i, seen.Object.Fields)
		}
	}
	a := c.write(1, Edit{Kind: EditPatch, Key: webKey, Unset: []string{"spec.containers.app.mounts.data.path", "spec.containers.app.mounts.data.readonly"}})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(2 * time.Second)
	if seen, _ := c.cores[1].core.See(webKey); len(seen.Invalid) > 0 || len(seen.Folded.Heads()) != 1 {
		t.Errorf("not settled: %v", seen.Invalid)
	}
}
