package peer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Whoever follows the pods by their changes alone knows after each what a full look tells.
func TestFollowingChanges(t *testing.T) {
	c := newCluster(t, 1)
	c.run(time.Second)
	core := c.cores[0].core
	known := map[api.Key]*lifecycle.Object{}
	version, all := uint64(0), false
	follow := func() {
		visited := map[api.Key]bool{}
		version, all = core.Changes("Pod", version, func(k api.Key, o *lifecycle.Object) {
			if visited[k] {
				t.Errorf("%s is visited twice", k)
			}
			if visited[k], known[k] = true, o; o == nil {
				delete(known, k)
			}
		})
		want := map[string]string{}
		for _, s := range core.List("Pod") {
			want[s.Object.Key.Name] = s.Object.Status().String("status.ready") + s.Object.Fields.String("spec.labels.n")
		}
		got := map[string]string{}
		for k, o := range known {
			got[k.Name] = o.Status().String("status.ready") + o.Fields.String("spec.labels.n")
		}
		if !maps.Equal(got, want) {
			t.Errorf("by changes %v, by a full look %v", got, want)
		}
	}
	follow()
	if !all {
		t.Error("the first look is not said to be of everything")
	}
	key := func(name string) api.Key { return api.Key{Kind: "Pod", Namespace: "default", Name: name} }
	pod := func(name string) Edit {
		return Edit{Kind: EditApply, Key: key(name), Fields: api.Fields{"spec.containers.app.image": `"a"`}}
	}
	c.write(1, pod("a"), pod("b"))
	follow()
	c.write(1, Edit{Kind: EditPatch, Key: key("a"), Fields: api.Fields{"spec.labels.n": `"1"`}})
	follow()
	c.write(1, Edit{Kind: EditDelete, Key: key("b")}, pod("c"))
	follow()
	if all {
		t.Error("a later look is of everything")
	}
	if names := strings.Join(slices.Sorted(maps.Keys(namesOf(known))), " "); names != "a c" {
		t.Errorf("the pods at the end are %s", names)
	}
}

func namesOf(known map[api.Key]*lifecycle.Object) map[string]bool {
	names := map[string]bool{}
	for k := range known {
		names[k.Name] = true
	}
	return names
}
