package oci

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func (s *Supervisor) configPath() string { return filepath.Join(s.cfg.Dir, "config.toml") }
func (s *Supervisor) pidPath() string    { return filepath.Join(s.cfg.Dir, "containerd.pid") }
func (s *Supervisor) rootPath() string   { return filepath.Join(s.cfg.Dir, "root") }
func (s *Supervisor) logPath() string    { return filepath.Join(s.cfg.Dir, "containerd.log") }

// prepare makes containerd's directory and configuration.
func (s *Supervisor) prepare() error {
	if err := os.MkdirAll(s.cfg.Dir, 0o711); err != nil {
		return fmt.Errorf("make containerd's directory: %w", err)
	}
	if err := os.WriteFile(s.configPath(), []byte(s.configuration()), 0o600); err != nil {
		return fmt.Errorf("write containerd's configuration: %w", err)
	}
	return nil
}

// configuration uses version 2 of the format, which every server from 1.6 on reads.
// What a peer does not use is switched off: it costs memory and start time, and the
// opt plugin would make a directory outside of ours.
func (s *Supervisor) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = 2\nroot = %q\nstate = %q\n", s.rootPath(), filepath.Join(s.cfg.Dir, "state"))
	b.WriteString("disabled_plugins = [\n")
	for _, plugin := range []string{
		"io.containerd.grpc.v1.cri",
		"io.containerd.internal.v1.opt",
		"io.containerd.internal.v1.tracing",
		"io.containerd.snapshotter.v1.aufs",
		"io.containerd.snapshotter.v1.btrfs",
		"io.containerd.snapshotter.v1.devmapper",
		"io.containerd.snapshotter.v1.zfs",
		"io.containerd.tracing.processor.v1.otlp",
	} {
		fmt.Fprintf(&b, "  %q,\n", plugin)
	}
	fmt.Fprintf(&b, "]\n\n[grpc]\n  address = %q\n\n[debug]\n  level = \"warn\"\n", s.Socket())
	return b.String()
}

// adopt finds the containerd that an earlier peer started. The pid alone proves
// nothing, since pids are used again: the process must also have been started with
// our configuration.
func (s *Supervisor) adopt() (*watched, error) {
	text, err := os.ReadFile(s.pidPath())
	if err != nil {
		return nil, fmt.Errorf("find the running containerd: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return nil, fmt.Errorf("find the running containerd: %s: %w", s.pidPath(), err)
	}
	process, err := watch(pid)
	if err != nil {
		return nil, err
	}
	// Read after the pidfd is open, so that what is read is of that process.
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(args, []byte(s.configPath())) {
		process.Close()
		return nil, fmt.Errorf("find the running containerd: process %d is another program: %w", pid, os.ErrProcessDone)
	}
	return process, nil
}
