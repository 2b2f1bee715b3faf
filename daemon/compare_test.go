package daemon

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// TestChangedAndGone: what two views of the core differ in is found, whatever they hold.
func TestChangedAndGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before, after []*lifecycle.Object
		var wantChanged, wantGone []string
		for i := range 8 {
			key := api.Key{Kind: "Pod", Namespace: "n", Name: fmt.Sprintf("p%d", i)}
			old, fresh := &lifecycle.Object{Key: key}, &lifecycle.Object{Key: key}
			switch rapid.SampledFrom([]string{"never", "stays", "changes", "comes", "goes"}).Draw(t, key.Name) {
			case "stays":
				before, after = append(before, old), append(after, old)
			case "changes":
				before, after = append(before, old), append(after, fresh)
				wantChanged = append(wantChanged, key.Name)
			case "comes":
				after = append(after, fresh)
				wantChanged = append(wantChanged, key.Name)
			case "goes":
				before = append(before, old)
				wantGone = append(wantGone, key.Name)
			}
		}
		if got := namesOf(changed(before, after)); got != strings.Join(wantChanged, " ") {
			t.Errorf("changed: %s, want %v", got, wantChanged)
		}
		if got := namesOf(gone(before, after)); got != strings.Join(wantGone, " ") {
			t.Errorf("gone: %s, want %v", got, wantGone)
		}
		if len(changed(after, after))+len(gone(after, after)) > 0 {
			t.Error("a view differs from itself")
		}
	})
}

func namesOf(list []*lifecycle.Object) string {
	var names []string
	for _, o := range list {
		names = append(names, o.Key.Name)
	}
	return strings.Join(names, " ")
}
