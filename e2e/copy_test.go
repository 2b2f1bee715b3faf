package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Files go into a container that has no shell and no tar, and come back from another
// machine; links inside of it lead to where its own processes would get.
func TestFilesAreCopiedInAndOut(t *testing.T) {
	c := need(t)
	c.remove(t, "files")
	c.apply(t, 1, "alice", podSpec{name: "files", args: serve}.String())
	pod := c.awaitReady(t, 1, "files")
	far := other(pod.status("machine"))
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	same := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	big := string(make([]byte, 3<<20))
	write("site/index", "hello")
	write("site/below/big", big)
	c.must(t, far, "cp", filepath.Join(dir, "site"), "files:/")
	c.must(t, far, "cp", "files:/site", filepath.Join(dir, "back"))
	same("back/index", "hello")
	same("back/below/big", big)
	c.must(t, far, "cp", filepath.Join(dir, "site/index"), "pod/files:/site/renamed")
	c.must(t, pod.machine(t), "cp", "files:/site/renamed", dir)
	same("renamed", "hello")

	// An archive goes through pipes.
	if tidy := c.ask(t, far, c.must(t, far, "cp", "files:/site/index", "-"), "cp", "-", "files:/site/piped"); tidy.code != 0 {
		t.Errorf("an archive from the standard input: %+v", tidy)
	}
	c.must(t, far, "cp", "files:/site/piped", dir)
	same("piped", "hello")

	// A link of the container's that leads to its root leads nowhere else.
	if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	write("links/x", "")
	if err := os.Rename(filepath.Join(dir, "root"), filepath.Join(dir, "links/root")); err != nil {
		t.Fatal(err)
	}
	c.must(t, far, "cp", filepath.Join(dir, "links"), "files:/")
	c.must(t, far, "cp", "files:/links/root/site/index", filepath.Join(dir, "through"))
	same("through", "hello")
	refuses(t, c.ask(t, far, "", "cp", "files:/links/root"+dir+"/site/index", filepath.Join(dir, "stolen")), "no such file")

	refuses(t, c.ask(t, far, "", "cp", "files:/nowhere", dir), "/nowhere", "no such file")
	refuses(t, c.ask(t, far, "", "cp", filepath.Join(dir, "site/index"), "files:/no/such/dir"), "no such file")
	refuses(t, c.ask(t, far, "", "cp", "nosuchpod:/x", dir), "pod/nosuchpod does not exist")
	refuses(t, c.ask(t, far, "", "cp", dir, dir), "OBJ:PATH")
}
