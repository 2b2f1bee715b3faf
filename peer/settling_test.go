package peer

import (
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// Two people change one field in two parts of a cluster. Whoever states either value, also the
// one that counts already, has settled it; who states another field has not.
func TestAConflictIsSettledByWhoStatesTheField(t *testing.T) {
	image := func(tag string) string { return strings.Replace(hello, ":1", ":"+tag, 1) }
	for what, tt := range map[string]struct {
		edit    func(winner, loser string) Edit
		settles bool
	}{
		"the value that counts": {func(winner, _ string) Edit { return pod(t, "web", image(winner)) }, true},
		"the other value":       {func(_, loser string) Edit { return pod(t, "web", image(loser)) }, true},
		"a third":               {func(_, _ string) Edit { return pod(t, "web", image("4")) }, true},
		"another field": {func(_, _ string) Edit {
			return Edit{Kind: EditPatch, Key: webKey, Fields: api.Fields{"lifecycle.restart": "1"}}
		}, false},
		"the field alone": {func(winner, _ string) Edit {
			return Edit{Kind: EditPatch, Key: webKey, Fields: api.Fields{"spec.containers.app.image": api.Str("localhost/hello:" + winner)}}
		}, true},
	} {
		c := newCluster(t, 2)
		c.run(3 * time.Second)
		c.write(1, pod(t, "web", hello))
		c.run(3 * time.Second)
		c.split(1)
		c.write(1, pod(t, "web", image("2")))
		c.write(2, pod(t, "web", image("3")))
		c.heal()
		c.run(5 * time.Second)
		seen, _ := c.cores[1].core.See(webKey)
		if len(seen.Folded.Conflicts()) != 1 {
			t.Fatalf("%s: %v, want one conflict", what, seen.Folded.Conflicts())
		}
		winner, loser := "2", "3"
		if strings.HasSuffix(api.Fields(seen.Folded.Values()).String("spec.containers.app.image"), ":3") {
			winner, loser = loser, winner
		}
		before := seen.Folded.Number()
		if a := c.write(2, tt.edit(winner, loser)); a.Err != nil || a.Objects[0].Result != "changed" || a.Set == "" {
			t.Fatalf("%s: %v %+v", what, a.Err, a.Objects)
		}
		c.run(5 * time.Second)
		for i, n := range c.cores {
			now, _ := n.core.See(webKey)
			if left := now.Folded.Conflicts(); (len(left) == 0) != tt.settles {
				t.Errorf("%s: m%d has %d conflicts left", what, i+1, len(left))
			}
			if tt.settles && now.Folded.Number() != before+1 {
				t.Errorf("%s: m%d is at rev %d, want %d", what, i+1, now.Folded.Number(), before+1)
			}
		}
		if again := c.write(1, tt.edit(winner, loser)); tt.settles && (again.Set != "" || again.Objects[0].Result != "unchanged") {
			t.Errorf("%s: stated again, it is %+v, want unchanged", what, again.Objects)
		}
	}
}
