package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// hold is how long the volumes of a pod outlive it on its machine.
const hold = 24 * time.Hour

// volumes keeps each pod's directories below dir/kept, and those of pods that are
// gone below dir/released until the hold is over.
type volumes struct{ dir string }

func (v *volumes) kept(podID string) string { return filepath.Join(v.dir, "kept", podID) }

func (v *volumes) released(podID string) string { return filepath.Join(v.dir, "released", podID) }

// Ensure makes a volume's directory. A pod that comes back within the hold finds what
// it left.
func (v *volumes) Ensure(_ context.Context, podID, name string) (string, error) {
	if err := os.MkdirAll(filepath.Join(v.dir, "kept"), 0o711); err != nil {
		return "", fmt.Errorf("make the directory of volumes: %w", err)
	}
	if err := os.Rename(v.released(podID), v.kept(podID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("take the pod's volumes back: %w", err)
	}
	path := filepath.Join(v.kept(podID), name)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return "", fmt.Errorf("make volume %s: %w", name, err)
	}
	return path, os.Chmod(path, 0o777|os.ModeSticky)
}

// Release gives the pod's volumes up: from now on they are held, then removed.
func (v *volumes) Release(_ context.Context, podID string) error {
	if _, err := os.Stat(v.kept(podID)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(v.dir, "released"), 0o700); err != nil {
		return fmt.Errorf("make the directory of released volumes: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(v.kept(podID), now, now); err != nil {
		return fmt.Errorf("note when the pod's volumes were released: %w", err)
	}
	if err := os.Rename(v.kept(podID), v.released(podID)); err != nil {
		return fmt.Errorf("release the pod's volumes: %w", err)
	}
	return nil
}

// Run removes released volumes when their hold is over.
func (v *volumes) Run(ctx context.Context) error {
	for {
		if err := v.collect(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Hour):
		}
	}
}

func (v *volumes) collect(now time.Time) error {
	entries, err := os.ReadDir(filepath.Join(v.dir, "released"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for released volumes: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < hold {
			continue
		}
		if err := os.RemoveAll(v.released(e.Name())); err != nil {
			return fmt.Errorf("remove the volumes of pod %s: %w", e.Name(), err)
		}
	}
	return nil
}
