package store

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPowerLossLosesNothing looks at what has reached the disk, and not only the
// kernel's page cache: the store lies on a file system on a loop device, whose
// backing file is the disk. A copy of that file is what a loss of power leaves.
func TestPowerLossLosesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a file system on a loop device needs root")
	}
	base := t.TempDir()
	image, mnt := filepath.Join(base, "disk"), filepath.Join(base, "mnt")
	run(t, "truncate", "--size=192M", image)
	run(t, "mkfs.ext4", "-q", image)
	mountImage(t, image, mnt)

	rng, dir := random(t), filepath.Join(mnt, "store")
	w := startWriter(t, dir)
	for round := range rounds(t, "STARLING_STORE_POWER", 6) {
		n := 1 + rng.IntN(60)
		w.order(n)
		w.await(n)
		after := copyImage(t, image)
		lost := filepath.Join(t.TempDir(), "mnt")
		mountImage(t, after, lost)
		checkAcked(t, filepath.Join(lost, "store"), w.acked)
		run(t, "umount", lost)
		if err := os.Remove(after); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: head %d", round, w.acked)
	}
	w.kill()
}

func mountImage(t *testing.T, image, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-o", "loop", image, dir)
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
}

// copyImage copies until two copies agree: no commit runs meanwhile, but the kernel
// and Badger may still write in the background, and a disk has one state at a time.
func copyImage(t *testing.T, image string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	for {
		run(t, "cp", "--sparse=always", image, to)
		if exec.Command("cmp", "--quiet", image, to).Run() == nil {
			return to
		}
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v, %s", cmd, err, stderr.String())
	}
}
