package oci

import (
	"context"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/oci"
	kernel "github.com/containerd/containerd/v2/pkg/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"starling.dev/starling/api"
	"starling.dev/starling/loops"
)

// openFiles says how many files a process may have open. The soft limit stays at the
// traditional 1,024, which select(2) needs; a program may raise it to the hard one,
// which is as generous as this process's own allows: raising a hard limit takes a
// privilege that a machine may not have.
func openFiles() *specs.POSIXRlimit {
	limit := &specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 524_288}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil {
		limit.Hard = min(limit.Hard, own.Max)
		limit.Soft = min(limit.Soft, limit.Hard)
	}
	return limit
}

// specOptions says how the container differs from containerd's default, which
// already has a small set of capabilities, no new privileges, and masked paths. System
// calls are filtered by containerd's default profile where the kernel can.
func (r *Runtime) specOptions(pod loops.PodSandbox, spec loops.ContainerSpec, rec record, image containerd.Image) []oci.SpecOpts {
	options := []oci.SpecOpts{
		oci.WithImageConfigArgs(image, spec.Args),
		oci.WithEnv(environment(pod, spec)),
		oci.WithHostname(pod.Hostname),
		oci.WithCgroup(rec.cgroup(r.cfg.Namespace)),
		oci.WithRlimit(openFiles()),
		oci.WithMounts(r.etcMounts(pod, spec.Mounts)),
		oci.WithMounts(ownMounts(spec)),
		withResources(spec),
	}
	if len(spec.Command) > 0 {
		options = append(options, oci.WithProcessArgs(slices.Concat(spec.Command, spec.Args)...))
	}
	if spec.WorkDir != "" {
		options = append(options, oci.WithProcessCwd(spec.WorkDir))
	}
	if spec.User != "" {
		user, _, _ := strings.Cut(spec.User, ":")
		options = append(options, oci.WithUser(spec.User), oci.WithAdditionalGIDs(user))
	}
	if pod.NetNS != "" {
		options = append(options, withNetwork(pod.NetNS))
	}
	if kernel.IsEnabled() {
		// Last: the profile follows from the capabilities.
		options = append(options, seccomp.WithDefaultProfile())
	}
	return options
}

// environment is what the spec sets, in a fixed order, over what the image sets.
func environment(pod loops.PodSandbox, spec loops.ContainerSpec) []string {
	env := []string{"HOSTNAME=" + pod.Hostname}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		env = append(env, name+"="+spec.Env[name])
	}
	return env
}

func ownMounts(spec loops.ContainerSpec) []specs.Mount {
	var mounts []specs.Mount
	for _, m := range spec.Mounts {
		mounts = append(mounts, bind(m.Source, m.Target, m.ReadOnly))
	}
	return mounts
}

// withResources sets the limits, and leaves the device rules of the default.
func withResources(spec loops.ContainerSpec) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		limits := resources(spec, canLimitSwap())
		s.Linux.Resources.CPU, s.Linux.Resources.Memory = limits.CPU, limits.Memory
		return nil
	}
}

// withNetwork joins the pod's network namespace. Inside of it the low ports and ping
// need no privilege: the namespace is the pod's own.
func withNetwork(path string) oci.SpecOpts {
	return oci.Compose(
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: path}),
		func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
			s.Linux.Sysctl = map[string]string{
				"net.ipv4.ip_unprivileged_port_start": "0",
				"net.ipv4.ping_group_range":           "0 2147483647",
			}
			return nil
		})
}

// runtimeFor maps the name of an OCI runtime to containerd's: one with a shim of its
// own, or a program that runc's shim can drive.
func runtimeFor(name string) (shim string, options *runcoptions.Options, err error) {
	switch {
	case name == "" || name == "runc":
		return defaults.DefaultRuntime, &runcoptions.Options{}, nil
	case name == "runsc":
		return "io.containerd.runsc.v1", nil, nil
	case name == "kata":
		return "io.containerd.kata.v2", nil, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", nil, failure(api.RuntimeUnavailable, err, "this machine has no OCI runtime %q; install it, or leave spec.runtime out", name)
	}
	return defaults.DefaultRuntime, &runcoptions.Options{BinaryName: path}, nil
}

// loggerArgs is the one argument of `peer logger`, carried in the URI that containerd
// hands to its shim. The shim passes a URI's parameters in no fixed order, so there
// is only one.
func (r *Runtime) loggerArgs(rec record) map[string]string {
	query := url.Values{
		"run":      {strconv.FormatUint(rec.Generation, 10)},
		"bytes":    {strconv.FormatInt(r.cfg.Log.SegmentBytes, 10)},
		"segments": {strconv.Itoa(r.cfg.Log.Segments)},
	}
	target := url.URL{Path: r.logDir(rec.PodID, rec.Container), RawQuery: query.Encode()}
	return map[string]string{"logger": target.String()}
}
