package oci

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestSupervisorAdoptsAndRestarts(t *testing.T) {
	own := startOwnContainerd(t)
	pid := ownPID(t, own.supervisor)
	// The supervisor that started it is gone; the next one takes it over.
	supervisor, err := NewSupervisor(own.supervisor.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- supervisor.Run(ctx) }()
	<-supervisor.Ready()
	if !supervisor.HasRun() {
		t.Error("it does not know that a containerd has run here")
	}
	if got := ownPID(t, supervisor); got != pid {
		t.Fatalf("containerd was process %d, and is %d", pid, got)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitAnother(t, supervisor, pid)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if !Answers(context.Background(), supervisor.Socket()) {
		t.Error("containerd went with its supervisor")
	}
	if err := supervisor.Stop(context.Background()); err != nil || Answers(context.Background(), supervisor.Socket()) {
		t.Errorf("Stop returned %v", err)
	}
	if err := supervisor.Stop(context.Background()); err != nil {
		t.Errorf("Stop, again, returned %v", err)
	}
}

// awaitAnother waits until containerd answers as another process.
func awaitAnother(t *testing.T, s *Supervisor, old int) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for ownPID(t, s) == old || !Answers(context.Background(), s.Socket()) {
		select {
		case <-deadline:
			t.Fatal("containerd was not started again")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ownPID(t *testing.T, s *Supervisor) int {
	t.Helper()
	text, err := os.ReadFile(s.pidPath())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A pid file that a reboot left may name any process.
func TestSupervisorTakesNoOtherProcess(t *testing.T) {
	s, err := NewSupervisor(SupervisorConfig{Logger: discard(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.pidPath(), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	if process, err := s.adopt(); err == nil {
		process.Close()
		t.Error("it took the test itself for containerd")
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("Stop returned %v", err)
	}
}

func TestSupervisorWithoutContainerd(t *testing.T) {
	s, err := NewSupervisor(SupervisorConfig{Logger: discard(), Dir: t.TempDir(), Binary: "no-such-containerd"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "install the package containerd") {
		t.Errorf("Run returned %v", err)
	}
	if s.HasRun() {
		t.Error("it takes a containerd to have run that does not exist")
	}
	if _, err := NewSupervisor(SupervisorConfig{Logger: discard(), Dir: filepath.Join("/", strings.Repeat("x", 100))}); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a path too long for a socket: %v", err)
	}
}

func TestBackoff(t *testing.T) {
	wait := time.Duration(0)
	for range 20 {
		wait = nextBackoff(wait, time.Second)
	}
	if wait != 30*time.Second {
		t.Errorf("the longest pause is %v", wait)
	}
	if wait = nextBackoff(wait, time.Hour); wait != 250*time.Millisecond {
		t.Errorf("after a long life the pause is %v", wait)
	}
}
