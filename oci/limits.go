package oci

import (
	"os"
	"strings"

	"github.com/containerd/cgroups/v3"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"starling.dev/starling/loops"
)

// cpuPeriod is the scheduler's accounting period in microseconds: the kernel's
// default.
const cpuPeriod = 100_000

// resources turns a container's limits into the runtime's. The quota is what a
// container may use at most, the shares what it gets when the machine is full; runc
// translates both for cgroup v2. swap tells whether the kernel can limit swap.
func resources(spec loops.ContainerSpec, swap bool) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if spec.CPU > 0 {
		period := uint64(cpuPeriod)
		quota := max(spec.CPU*cpuPeriod/1000, 1000) // the kernel's least is 1 ms
		shares := uint64(max(spec.CPU*1024/1000, 2))
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota, Shares: &shares}
	}
	if spec.Memory > 0 {
		limit := spec.Memory
		r.Memory = &specs.LinuxMemory{Limit: &limit}
		if swap {
			// Memory and swap together: none of the latter.
			r.Memory.Swap = &limit
		}
	}
	return r
}

// canLimitSwap tells whether a container must and can be kept from swapping. Setting
// the limit on a kernel that does not account for swap is an error in runc.
func canLimitSwap() bool {
	if cgroups.Mode() != cgroups.Unified {
		_, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
		return err == nil
	}
	swaps, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(string(swaps), "\n") > 1
}
