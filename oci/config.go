package oci

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
)

// SystemSocket is where the machine's own containerd listens.
const SystemSocket = "/run/containerd/containerd.sock"

// Config says how a Runtime reaches containerd and where it keeps files.
type Config struct {
	// Logger is required.
	Logger *slog.Logger
	// Socket is the path of containerd's socket; required.
	Socket string
	// Namespace is the containerd namespace, and the top cgroup, that belong to this
	// peer alone; required.
	Namespace string
	// StateDir holds one directory per pod; required, absolute.
	StateDir string
	// LoggerPath is the absolute path of the program that, run as
	// `LoggerPath logger ARG`, calls RunLogger; required.
	LoggerPath string
	// Snapshotter is containerd's; empty: overlayfs.
	Snapshotter string
	// PlainHTTP lists registry hosts (HOST or HOST:PORT) that are spoken to without
	// TLS. Loopback addresses always are.
	PlainHTTP []string
	// AuthFile holds credentials for registries, as containers-auth.json(5) describes
	// it; it need not exist. Optional.
	AuthFile string
	// Fetcher is asked for an image before its registry is; optional.
	Fetcher Fetcher
	// BeforeStop is called before a running container of a pod is asked to end, and the
	// request waits for it: it takes the pod out of what sends it work. Optional.
	BeforeStop func(ctx context.Context, podID string) error
	// Log bounds each container's log; the zero value is 4 segments of 1 MiB.
	Log LogLimits
}

// LogLimits bounds what is kept of a container's output.
type LogLimits struct {
	// SegmentBytes is the size at which a new segment begins; 0: 1 MiB.
	SegmentBytes int64
	// Segments: this many times SegmentBytes are kept over all of the container's
	// runs; 0: 4.
	Segments int
}

func (l LogLimits) withDefaults() LogLimits {
	if l.SegmentBytes <= 0 {
		l.SegmentBytes = 1 << 20
	}
	if l.Segments <= 0 {
		l.Segments = 4
	}
	return l
}

// namespacePattern is the part of containerd's rule for identifiers that also makes
// a plain cgroup name.
var namespacePattern = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

func (c Config) validate() error {
	switch {
	case c.Logger == nil:
		return errors.New("container runtime: Config.Logger is missing")
	case !filepath.IsAbs(c.Socket):
		return fmt.Errorf("container runtime: containerd's socket %q must be an absolute path", c.Socket)
	case !namespacePattern.MatchString(c.Namespace) || len(c.Namespace) > 76:
		return fmt.Errorf("container runtime: %q is no containerd namespace: use letters, digits and single . _ - between them", c.Namespace)
	case !filepath.IsAbs(c.StateDir):
		return fmt.Errorf("container runtime: the state directory %q must be an absolute path", c.StateDir)
	case !filepath.IsAbs(c.LoggerPath):
		return fmt.Errorf("container runtime: the logger's program %q must be an absolute path", c.LoggerPath)
	}
	return nil
}
