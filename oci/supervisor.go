package oci

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// SupervisorConfig says where a supervised containerd lives.
type SupervisorConfig struct {
	// Logger is required.
	Logger *slog.Logger
	// Dir holds containerd's root, state, configuration, socket and log; required,
	// absolute, short enough for a socket's path (107 bytes).
	Dir string
	// Binary is containerd's program; empty: the one in PATH.
	Binary string
}

func (c SupervisorConfig) validate() error {
	const longest = 107 - len("/containerd.sock.ttrpc")
	switch {
	case c.Logger == nil:
		return errors.New("supervise containerd: SupervisorConfig.Logger is missing")
	case !filepath.IsAbs(c.Dir):
		return fmt.Errorf("supervise containerd: the directory %q must be an absolute path", c.Dir)
	case len(c.Dir) > longest:
		return fmt.Errorf("supervise containerd: the path %s is longer than the %d bytes that leave room for a socket's name; choose a shorter data directory", c.Dir, longest)
	}
	return nil
}

// Supervisor keeps a containerd of the peer's own running. See the package's
// documentation for why it leaves it running when Run returns.
type Supervisor struct {
	cfg   SupervisorConfig
	ready chan struct{}
	once  sync.Once // closes ready
}

// NewSupervisor returns a supervisor that has started nothing yet.
func NewSupervisor(cfg SupervisorConfig) (*Supervisor, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Binary == "" {
		cfg.Binary = "containerd"
	}
	return &Supervisor{cfg: cfg, ready: make(chan struct{})}, nil
}

// Socket returns the path at which the supervised containerd serves.
func (s *Supervisor) Socket() string { return filepath.Join(s.cfg.Dir, "containerd.sock") }

// HasRun tells whether a containerd was supervised in this directory before. A peer
// then stays with it, even if the system has one by now: its containers are there.
func (s *Supervisor) HasRun() bool {
	_, err := os.Stat(s.rootPath())
	return err == nil
}

// Ready is closed once containerd has answered for the first time.
func (s *Supervisor) Ready() <-chan struct{} { return s.ready }

// String names the task in logs.
func (s *Supervisor) String() string { return "containerd supervisor" }

// Run adopts the containerd that an earlier peer left, or starts one, and starts it
// again, with backoff, whenever it ends. It returns nil when ctx is done, and leaves
// containerd running.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.prepare(); err != nil {
		return err
	}
	wait := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		err := s.watchOne(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("start containerd: %w; install the package containerd", err)
		}
		wait = nextBackoff(wait, time.Since(began))
		s.cfg.Logger.Warn("containerd ended; starting it again", "after", wait, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// nextBackoff doubles the pause from 250 ms to 30 s, and begins anew after a life of
// at least a minute.
func nextBackoff(last, lived time.Duration) time.Duration {
	if last == 0 || lived >= time.Minute {
		return 250 * time.Millisecond
	}
	return min(2*last, 30*time.Second)
}

// watchOne watches over one life of containerd, and returns when it has ended or ctx is
// done.
func (s *Supervisor) watchOne(ctx context.Context) error {
	process, err := s.adopt()
	if err != nil {
		if process, err = s.start(); err != nil {
			return err
		}
	}
	defer process.Close()
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.awaitService(alive)
	}()
	err = process.Wait(ctx)
	cancel()
	<-served
	return err
}

// awaitService closes ready once containerd answers.
func (s *Supervisor) awaitService(ctx context.Context) {
	for ctx.Err() == nil {
		if Answers(ctx, s.Socket()) {
			s.once.Do(func() { close(s.ready) })
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// start runs a new containerd in a session of its own.
func (s *Supervisor) start() (*watched, error) {
	out, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open containerd's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(s.cfg.Binary, "--config", s.configPath())
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.cfg.Binary, err)
	}
	process, err := watch(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	process.child = cmd
	if err := os.WriteFile(s.pidPath(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("record containerd's process: %w", err), cmd.Process.Kill())
	}
	return process, nil
}

// Stop ends the supervised containerd, for a machine that leaves or a lab that goes
// down. Its containers go on running, so they are removed before. Run must have
// returned, or it would start another.
func (s *Supervisor) Stop(ctx context.Context) error {
	process, err := s.adopt()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer process.Close()
	if err := process.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop containerd: %w", err)
	}
	patient, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if process.Wait(patient); patient.Err() != nil {
		if err := process.signal(syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill containerd: %w", err)
		}
		process.Wait(ctx)
	}
	return os.Remove(s.pidPath())
}
