package peer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// A turn that writes more than a batch may hold makes several, each of which others take.
func TestManyChangesInOneTurn(t *testing.T) {
	c := newCluster(t, 2)
	c.run(time.Second)
	var edits []Edit
	for i := range 300 {
		edits = append(edits, Edit{
			Kind: EditApply, Key: api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i)},
			Fields: api.Fields{"spec.containers.app.image": `"a"`, "spec.containers.app.env.LONG": api.Str(strings.Repeat("x", 8<<10))},
		})
	}
	c.write(1, edits...)
	total, largest := 0, 0
	for _, b := range c.cores[0].batch {
		size := len(b.Encode())
		total, largest = total+size, max(largest, size)
	}
	if total < 2*crdt.MaxBatch || largest > crdt.MaxBatch {
		t.Errorf("of %d bytes the largest batch has %d", total, largest)
	}
	if one, two := c.cores[0].core.Digest().Heads, c.cores[1].core.Digest().Heads; one != two {
		t.Error("the other machine did not take all of it")
	}
}
