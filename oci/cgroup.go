package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3"
)

// cgroupRoot is where every distribution mounts the cgroup hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

// oomKills reads how many processes of a cgroup the kernel killed for want of memory.
// It must be read before the task is deleted, which removes the cgroup.
func oomKills(cgroup string) (uint64, error) {
	path := filepath.Join(cgroupRoot, "memory", cgroup, "memory.oom_control")
	if cgroups.Mode() == cgroups.Unified {
		path = filepath.Join(cgroupRoot, cgroup, "memory.events")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read out-of-memory events: %w", err)
	}
	return counter(string(text), "oom_kill")
}

// counter finds "name value" among the lines of a cgroup's file.
func counter(text, name string) (uint64, error) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("find %s among the cgroup's counters: %w", name, fs.ErrNotExist)
}

// removeCgroups removes a directory of empty cgroups from every hierarchy. runc
// removes only the one that it made for a container, not those above it.
func removeCgroups(cgroup string) error {
	roots := []string{cgroupRoot}
	if cgroups.Mode() != cgroups.Unified {
		found, err := filepath.Glob(filepath.Join(cgroupRoot, "*"))
		if err != nil {
			return fmt.Errorf("list cgroup hierarchies: %w", err)
		}
		roots = found
	}
	var errs []error
	for _, root := range roots {
		errs = append(errs, removeCgroupTree(filepath.Join(root, cgroup)))
	}
	return errors.Join(errs...)
}

// removeCgroupTree removes a cgroup and those below it. A cgroup's own files can't
// and need not be removed.
func removeCgroupTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeCgroupTree(filepath.Join(dir, e.Name())))
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
	}
	return errors.Join(errs...)
}
