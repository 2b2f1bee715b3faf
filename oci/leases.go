package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"starling.dev/starling/loops"
)

// holdPatience is how long a step waits for a lease that is on its way, before it says
// what it waits for.
const holdPatience = 3 * time.Second

// LeaseConfig is what leases are kept with. All fields are required.
type LeaseConfig struct {
	Logger *slog.Logger
	// Dir holds one file per leased pod. It must not outlive the machine's power: what
	// stands in it is of the boot-time clock.
	Dir string
	// Namespace is that of the containers, GuardPath the absolute path of the program
	// that, run as `GuardPath guard ARG`, calls RunGuard.
	Namespace, GuardPath string
}

func (c LeaseConfig) validate() error {
	if c.Logger == nil || !filepath.IsAbs(c.Dir) || c.Namespace == "" || !filepath.IsAbs(c.GuardPath) {
		return errors.New("leases: a logger, a namespace, and absolute paths of the directory and the guard are required")
	}
	return nil
}

// Leases is loops.Leases on a real machine: what the core tells, passed on to guards.
type Leases struct {
	cfg LeaseConfig

	mu      sync.Mutex // guards what follows
	known   map[string]loops.Lease
	guarded map[string]bool // pods whose deadline the guard reads
	changed chan struct{}   // closed when something was told
}

var _ loops.Leases = (*Leases)(nil)

// NewLeases returns the keeper. It starts nothing.
func NewLeases(cfg LeaseConfig) (*Leases, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Leases{cfg: cfg, known: map[string]loops.Lease{}, guarded: map[string]bool{}, changed: make(chan struct{})}, nil
}

// Tell notes how a lease stands, and has the guard wait longer.
func (l *Leases) Tell(lease loops.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[lease.PodID] = lease
	if lease.Held && l.guarded[lease.PodID] {
		if err := writeDeadline(l.file(lease.PodID), lease.Until); err != nil {
			l.cfg.Logger.Error("a leased pod will be killed: its guard can't be told of the renewal", "pod", lease.PodID, "error", err)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Hold returns the lease once it is held and its guard is at work.
func (l *Leases) Hold(ctx context.Context, podID string) (loops.Lease, error) {
	patience := time.NewTimer(holdPatience)
	defer patience.Stop()
	for {
		lease, changed := l.read(podID)
		if lease.Held && BootTime() < lease.Until {
			return lease, l.guard(ctx, podID)
		}
		select {
		case <-changed:
		case <-patience.C:
			return lease, loops.NotHeld(lease)
		case <-ctx.Done():
			return lease, ctx.Err()
		}
	}
}

func (l *Leases) read(podID string) (loops.Lease, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[podID], l.changed
}

// Drop removes the deadline, which ends the guard.
func (l *Leases) Drop(podID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, podID)
	delete(l.guarded, podID)
	if err := os.Remove(l.file(podID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the guard of a lease: %w", err)
	}
	return nil
}

func (l *Leases) file(podID string) string { return filepath.Join(l.cfg.Dir, podID) }

// guard writes the deadline and makes sure that a guard reads it.
func (l *Leases) guard(ctx context.Context, podID string) error {
	if err := os.MkdirAll(l.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("guard a lease: %w", err)
	}
	l.mu.Lock()
	l.guarded[podID] = true
	err := writeDeadline(l.file(podID), l.known[podID].Until)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.start(ctx, podID)
}

// start runs a guard and waits until it says that the pod is guarded, by it or by
// another that runs already. It has a session of its own and outlives this program.
func (l *Leases) start(ctx context.Context, podID string) error {
	ready, told, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("guard a lease: %w", err)
	}
	defer ready.Close()
	cmd := exec.Command(l.cfg.GuardPath, "guard", guardArg(l.file(podID), podCgroup(l.cfg.Namespace, podID)))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = []*os.File{told}
	err = errors.Join(cmd.Start(), told.Close())
	if err != nil {
		return fmt.Errorf("start the guard of a lease: %w", err)
	}
	// It is no task of this program: only its exit is collected, whenever that comes.
	go func() { _ = cmd.Wait() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = ready.SetReadDeadline(deadline) // a pipe always takes one
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("start the guard of a lease: it ended before the pod was guarded: %w", err)
	}
	return nil
}
