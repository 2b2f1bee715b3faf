package peer

import (
	"strings"
	"testing"
	"time"
)

// Two people create one name in two parts of a cluster. Until somebody settles it, both are
// kept and one is shown as passed over.
func TestTwoOfOneNameAreSettled(t *testing.T) {
	for what, tt := range map[string]struct {
		edit  Edit
		lives int // that are left
	}{
		"a deletion starts nothing":        {Edit{Kind: EditDelete, Key: webKey}, 0},
		"who states the spec has settled":  {pod(t, "web", hello), 1},
		"a change of the spec settles too": {pod(t, "web", strings.Replace(hello, ":1", ":2", 1)), 1},
		"a restart says nothing of it":     {Edit{Kind: EditPatch, Key: webKey, Fields: map[string]string{"lifecycle.restart": "1"}}, 2},
	} {
		c := newCluster(t, 2)
		c.run(3 * time.Second)
		c.split(1)
		c.write(1, pod(t, "web", hello))
		c.write(2, pod(t, "web", hello))
		c.heal()
		c.run(5 * time.Second)
		seen, _ := c.cores[1].core.See(webKey)
		if len(seen.Folded.Losers()) != 1 {
			t.Fatalf("%s: %d are passed over, want one", what, len(seen.Folded.Losers()))
		}
		if a := c.write(2, tt.edit); a.Err != nil || a.Set == "" || a.Objects[0].Result == "unchanged" {
			t.Fatalf("%s: %v %+v", what, a.Err, a.Objects)
		}
		c.run(5 * time.Second)
		for i, n := range c.cores {
			lives, running := 0, len(n.host.pods)
			for _, o := range n.core.Incarnations(webKey) {
				if !o.Deleted() {
					lives++
				}
			}
			if lives != tt.lives || tt.lives == 0 && running > 0 {
				t.Errorf("%s: m%d has %d lives and %d pods, want %d lives", what, i+1, lives, running, tt.lives)
			}
			if now, ok := n.core.See(webKey); tt.lives == 1 && (!ok || now.Object.ID != seen.Object.ID) {
				t.Errorf("%s: m%d: another has the name", what, i+1)
			}
		}
	}
}
