package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// shape lists all below dir: each name with its kind, mode and content.
func shape(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(name)
		case info.Mode().IsRegular():
			var raw []byte
			raw, err = os.ReadFile(name)
			content = string(raw)
		}
		rel, _ := filepath.Rel(dir, name)
		lines = append(lines, fmt.Sprintf("%s %s %q", info.Mode(), rel, content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestATreeSurvivesTheWay(t *testing.T) {
	from := t.TempDir()
	write := func(name, content string, mode fs.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(from, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(from, "a/b"), 0o750); err != nil {
		t.Fatal(err)
	}
	write("a/run", "#!/bin/sh", 0o755)
	write("a/b/empty", "", 0o600)
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "a/link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(from, "a/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := PackDir(&archive, open(t, from), "top"); err != nil {
		t.Fatal(err)
	}
	packed := archive.Bytes()
	to := t.TempDir()
	if err := Unpack(bytes.NewReader(packed), open(t, to), ""); err != nil {
		t.Fatal(err)
	}
	want := "drwxr-x--- a \"\"\ndrwxr-x--- a/b \"\"\n-rw------- a/b/empty \"\"\nLrwxrwxrwx a/link \"/etc/passwd\"\n-rwxr-xr-x a/run \"#!/bin/sh\""
	if got := shape(t, filepath.Join(to, "top")); got != want {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
	// Again, under another name, over what is there.
	for range 2 {
		if err := Unpack(bytes.NewReader(packed), open(t, to), "other"); err != nil {
			t.Fatal(err)
		}
	}
	if got := shape(t, filepath.Join(to, "other")); got != want {
		t.Errorf("the renamed copy is\n%s\nwant\n%s", got, want)
	}
}

// An archive comes from a container, which may want to write elsewhere.
func TestHostileArchives(t *testing.T) {
	type entry struct {
		kind       byte
		name, link string
	}
	for name, entries := range map[string][]entry{
		"a name above":             {{tar.TypeReg, "../outside", ""}},
		"an absolute name":         {{tar.TypeReg, "/outside", ""}},
		"through a link":           {{tar.TypeSymlink, "d", ".."}, {tar.TypeReg, "d/outside", ""}},
		"through an absolute link": {{tar.TypeSymlink, "d", "/"}, {tar.TypeReg, "d/outside", ""}},
		"a hard link":              {{tar.TypeLink, "l", "../victim"}},
		"a device":                 {{tar.TypeChar, "null", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			dir := filepath.Join(around, "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for _, e := range entries {
				h := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: 0o644}
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := Unpack(&archive, open(t, dir), ""); err == nil {
				t.Error("it was unpacked")
			}
			if left, err := os.ReadDir(around); err != nil || len(left) != 1 {
				t.Errorf("beside the directory there are %v, %v", left, err)
			}
		})
	}
}

// A link that is in the way is replaced, and what it points to stays.
func TestALinkInTheWayIsReplaced(t *testing.T) {
	around := t.TempDir()
	victim, dir := filepath.Join(around, "victim"), filepath.Join(around, "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(victim)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var archive bytes.Buffer
	if err := PackFile(&archive, f, "f"); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(&archive, open(t, dir), ""); err != nil {
		t.Fatal(err)
	}
	if got := shape(t, around); got != "drwxr-xr-x in \"\"\n-rw------- in/f \"kept\"\n-rw------- victim \"kept\"" {
		t.Errorf("afterwards:\n%s", got)
	}
}
