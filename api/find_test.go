package api

import "testing"

// TestPathsAreFoundAlike: a path that is found without being taken apart is the node that
// taking it apart leads to, and there is nothing to say about it.
func TestPathsAreFoundAlike(t *testing.T) {
	found := 0
	for kind, s := range Builtin().schemas {
		for _, path := range []string{
			"", ".", "spec", "spec.", ".spec", "spec..to", "spec.to.labels.app", "spec.to.labels.*", `spec.to.labels."a.b"`, `spec.to.labels."app"`,
			"spec.to.labels.app.more", "spec.to.labels.not a label", "spec.containers.app.image", "spec.containers.App.image", "spec.containers.app",
			"spec.containers.app.ports.web.port", "lifecycle.target", "status.machine", "spec.nothing", "nothing", "spec.ports.-", "*",
		} {
			n := s.plainly(path)
			if n == nil {
				continue
			}
			found++
			if walked, problem := s.walk(path); walked != n || problem != (Problem{}) {
				t.Errorf("%s %q: found at once, but %+v", kind, path, problem)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d paths were found at once", found)
	}
}
