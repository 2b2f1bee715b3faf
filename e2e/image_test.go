package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"starling.dev/starling/oci/testimage"
)

// bring loads the test's program as an image of another name at one machine.
func (c *cluster) bring(t *testing.T, n int, ref string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := testimage.Options{Ref: ref, Binary: filepath.Join(c.dir, "hello"), Env: []string{"NAME=" + ref}}
	if err := testimage.Build(t.Context(), f, o); err != nil {
		t.Fatal(err)
	}
	c.must(t, n, "image", "load", "-f", path)
	t.Cleanup(func() { c.ask(t, n, "", "image", "rm", ref) })
}

// heldBy lists the machines that hold an image.
func (c *cluster) heldBy(t *testing.T, ref string) (machines []string) {
	t.Helper()
	for line := range strings.Lines(c.must(t, 1, "image", "ls")) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == ref {
			machines = append(machines, words[len(words)-1])
		}
	}
	return machines
}

// An image comes to a machine with a pod, stays for as long as a rollback may want it, and
// goes afterwards; the copy that a person loaded stays until a person removes it.
func TestImagesGoWithTheirLastRev(t *testing.T) {
	c := need(t)
	const home = 2
	ref := func(n int) string { return fmt.Sprintf("localhost/wanders:%d", n) }
	c.remove(t, "wanderer")
	c.must(t, 1, "machine", "label", fmt.Sprintf("m%d", home), "images=here")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", fmt.Sprintf("m%d", home), "images-") })
	for n := 1; n <= 3; n++ {
		c.bring(t, 1, ref(n))
		c.apply(t, 1, "alice", podSpec{name: "wanderer", image: ref(n), args: serve, require: "images: here"}.String())
		c.awaitReady(t, 1, "wanderer")
	}
	refuses(t, c.ask(t, home, "", "image", "rm", ref(3)), "needed by pod/wanderer")
	says(t, c.must(t, home, "image", "prune"), ref(1))
	for n, want := range []string{"[m1]", "[m1 m2]", "[m1 m2]"} {
		if got := fmt.Sprint(c.heldBy(t, ref(n+1))); got != want {
			t.Errorf("%s is held by %s, want %s", ref(n+1), got, want)
		}
	}
	// The machine with the only other copy is gone, and the rollback still works.
	c.must(t, 1, "image", "rm", ref(2))
	c.must(t, 3, "rollback", "wanderer")
	back := c.awaitReady(t, 3, "wanderer")
	if now := c.must(t, 3, "get", "pod/wanderer", "-o", "yaml"); !strings.Contains(now, ref(2)) || !back.ready() {
		t.Errorf("the rollback runs\n%s", now)
	}
}
