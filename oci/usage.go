package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
)

// Usage is what one running container has used.
type Usage struct {
	PodID, Namespace, Name, Container string
	// CPU is all the processor time that its processes took so far.
	CPU time.Duration
	// Memory is what it holds and the kernel can't take back at once, in bytes: its whole
	// use less the page cache that nobody has touched lately.
	Memory int64
	// GivenCPU (thousandths of a core) and GivenMemory (bytes) are its limits; 0 is none.
	GivenCPU, GivenMemory int64
}

// Usage reads what the running containers have used. One that ends meanwhile is left out.
func (r *Runtime) Usage(ctx context.Context) ([]Usage, error) {
	all, err := r.allRecords(r.in(ctx))
	if err != nil {
		return nil, r.explain(err)
	}
	var list []Usage
	for _, rec := range all {
		if rec.Phase != phaseRunning {
			continue
		}
		u := Usage{
			PodID: rec.PodID, Namespace: rec.PodNamespace, Name: rec.PodName, Container: rec.Container,
			GivenCPU: rec.Given.CPU, GivenMemory: rec.Given.Memory,
		}
		err := u.read(rec.cgroup(r.cfg.Namespace))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read what container %s of pod %s uses: %w", rec.Container, rec.PodName, err)
		}
		list = append(list, u)
	}
	return list, nil
}

func (u *Usage) read(cgroup string) error {
	if cgroups.Mode() == cgroups.Unified {
		return u.readUnified(filepath.Join(cgroupRoot, cgroup))
	}
	nanoseconds, err := number(filepath.Join(cgroupRoot, "cpuacct", cgroup, "cpuacct.usage"))
	if err != nil {
		return err
	}
	u.CPU = time.Duration(nanoseconds)
	dir := filepath.Join(cgroupRoot, "memory", cgroup)
	return u.readMemory(filepath.Join(dir, "memory.usage_in_bytes"), filepath.Join(dir, "memory.stat"), "total_inactive_file")
}

func (u *Usage) readUnified(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return err
	}
	microseconds, err := counter(string(text), "usage_usec")
	if err != nil {
		return err
	}
	u.CPU = time.Duration(microseconds) * time.Microsecond
	return u.readMemory(filepath.Join(dir, "memory.current"), filepath.Join(dir, "memory.stat"), "inactive_file")
}

func (u *Usage) readMemory(whole, stat, inactive string) error {
	used, err := number(whole)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(stat)
	if err != nil {
		return err
	}
	reclaimable, err := counter(string(text), inactive)
	if err != nil {
		return err
	}
	u.Memory = max(used-int64(reclaimable), 0)
	return nil
}

// number reads a file that holds one number.
func number(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
