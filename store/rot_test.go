package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// Every harm that is done here to the files of a store must be detected (Open or
// Recover says so, or the process ends) or harmless (all content is there).

// templates makes two stores with the same content: one that was closed in order,
// and one whose process ended without that, so that logs are there to be replayed.
func templates(t *testing.T) (closed, crashed, contents string) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fillMixed(t, s, 400)
	mustClose(t, s) // what was written so far is in tables
	s = mustOpen(t, cfg)
	fill(t, s, 1, 60)
	crashed = snapshot(t, cfg.Dir)
	mustClose(t, s)
	contents, err := verify(cfg.Dir)
	if err != nil || !strings.HasPrefix(contents, "sound=true") {
		t.Fatalf("template: %q, %v", contents, err)
	}
	return cfg.Dir, crashed, contents
}

func fillMixed(t *testing.T, s *Store, n int) {
	t.Helper()
	var c crdt.Commit
	for i := range n {
		c.Batches = append(c.Batches, storetest.Batch(storetest.Actor(byte(2+i%7)), uint64(1+i/7), 1, 300))
		c.Local = append(c.Local, crdt.LocalWrite{Key: fmt.Sprintf("key/%d", i), Value: make([]byte, 100)})
	}
	mustCommit(t, s, c)
}

// verify reads the store in another process.
func verify(dir string) (string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=verify", envDir+"="+dir)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// harm judges what became of a store that was tampered with.
func harm(t *testing.T, dir, want, what string) (detected bool) {
	t.Helper()
	got, err := verify(dir)
	switch {
	case err != nil, strings.HasPrefix(got, "sound=false"):
		return true
	case got != want:
		t.Errorf("%s: neither detected nor harmless: %q", what, got)
	}
	return false
}

func TestBitFlips(t *testing.T) {
	closed, crashed, want := templates(t)
	rng, detected := random(t), 0
	n := rounds(t, "STARLING_STORE_FLIPS", 200)
	for i := range n {
		dir := filepath.Join(t.TempDir(), "store")
		from := closed
		if i%2 == 1 {
			from = crashed
		}
		copyDir(t, dir, from)
		what := flip(t, rng, dir)
		if harm(t, dir, want, what) {
			detected++
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d flips: %d detected, %d harmless", n, detected, n-detected)
	if detected == 0 {
		t.Error("no flip was detected, so the test harms nothing")
	}
}

// flip flips a bit in the used part of a random file.
func flip(t *testing.T, rng *rand.Rand, dir string) string {
	t.Helper()
	files := usedFiles(t, dir)
	f := files[rng.IntN(len(files))]
	at, bit := rng.Int64N(f.used), rng.IntN(8)
	data, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	var b [1]byte
	if _, err := data.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := data.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("bit %d of byte %d in %s", bit, at, filepath.Base(f.path))
}

type usedFile struct {
	path string
	used int64 // up to the last byte that is not zero
}

func usedFiles(t *testing.T, dir string) []usedFile {
	t.Helper()
	var files []usedFile
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "reserve" {
			return err
		}
		data, err := os.ReadFile(path)
		used := len(strings.TrimRight(string(data), "\x00"))
		if used > 0 {
			files = append(files, usedFile{path, int64(used)})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTruncatedFiles(t *testing.T) {
	closed, crashed, want := templates(t)
	rng := random(t)
	for _, c := range []struct {
		from, suffix string
		// always: a cut inside the used part can't be harmless.
		always bool
	}{
		{crashed, ".mem", true}, {closed, ".vlog", false}, {closed, ".sst", true}, {closed, "MANIFEST", true},
		{closed, "highwater", true},
	} {
		for range rounds(t, "STARLING_STORE_CUTS", 8) {
			dir := filepath.Join(t.TempDir(), "store")
			copyDir(t, dir, c.from)
			what, cut := truncate(t, rng, dir, c.suffix)
			detected := harm(t, dir, want, what)
			if c.always && cut && !detected {
				t.Errorf("%s was not detected", what)
			}
		}
	}
}

// truncate cuts the newest file with a suffix somewhere in its used part.
func truncate(t *testing.T, rng *rand.Rand, dir, suffix string) (what string, cut bool) {
	t.Helper()
	var newest usedFile
	for _, f := range usedFiles(t, dir) {
		if strings.HasSuffix(f.path, suffix) {
			newest = f
		}
	}
	if newest.used == 0 {
		return "no " + suffix, false
	}
	at := rng.Int64N(newest.used)
	if err := os.Truncate(newest.path, at); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s cut at %d of %d", filepath.Base(newest.path), at, newest.used), true
}
