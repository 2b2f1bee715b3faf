package oci

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

func newTestLeases(t *testing.T) *Leases {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLeases(LeaseConfig{Logger: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Namespace: "starling-guard-test", GuardPath: self})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// victim runs a process in the pod's cgroup; the channel is closed at its end.
func victim(t *testing.T, cgroup string) (ended <-chan struct{}) {
	t.Helper()
	dir := filepath.Join(cgroupRoot, cgroup)
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.procs")); err != nil {
		dir = filepath.Join(cgroupRoot, "memory", cgroup)
	}
	inner := filepath.Join(dir, "app", "1")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(errors.Join(err, cmd.Process.Kill()))
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if err := removeCgroups(cgroup); err != nil {
			t.Log(err)
		}
	})
	return done
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("cgroups can be made by root only")
	}
}

// TestGuardKillsAtTheDeadline: renewed, the pod lives beyond its first deadline; then
// nobody renews it, and it is killed by a process that no longer has anyone to ask.
func TestGuardKillsAtTheDeadline(t *testing.T) {
	asRoot(t)
	l := newTestLeases(t)
	cgroup := podCgroup(l.cfg.Namespace, "deadline")
	ended := victim(t, cgroup)
	l.Tell(loops.Lease{PodID: "deadline", Held: true, Fence: 4, Until: BootTime() + time.Second})
	lease, err := l.Hold(context.Background(), "deadline")
	if err != nil || lease.Fence != 4 {
		t.Fatalf("got %+v, %v", lease, err)
	}
	until := BootTime() + 3*time.Second
	l.Tell(loops.Lease{PodID: "deadline", Held: true, Fence: 4, Until: until})
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it still runs long after its lease")
	}
	if late := BootTime() - until; late < 0 || late > 2*time.Second {
		t.Errorf("killed %v after the deadline, want soon after it", late)
	}
	if err := l.Drop("deadline"); err != nil {
		t.Error(err)
	}
}

// TestGuardOutlivesHolder: a second Hold finds the guard of an earlier life at work, and
// a dropped lease ends it without harm.
func TestGuardOutlivesHolder(t *testing.T) {
	asRoot(t)
	l := newTestLeases(t)
	ended := victim(t, podCgroup(l.cfg.Namespace, "outlives"))
	l.Tell(loops.Lease{PodID: "outlives", Held: true, Fence: 1, Until: BootTime() + 2*time.Second})
	for range 2 {
		if _, err := l.Hold(context.Background(), "outlives"); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Drop("outlives"); err != nil {
		t.Fatal(err)
	}
	// The guard lets its lock go when it finds the deadline gone.
	lock, err := os.OpenFile(l.file("outlives")+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("it was killed though its lease was dropped")
	default:
	}
}

func TestHoldSaysWhatItWaitsFor(t *testing.T) {
	l := newTestLeases(t)
	l.Tell(loops.Lease{PodID: "p", Why: "1 of 3 voters answer"})
	_, err := l.Hold(context.Background(), "p")
	var known *lifecycle.Error
	if !errors.As(err, &known) || known.Code != api.NoMajority || known.Message != "waits for its lease: 1 of 3 voters answer" || !known.Wait {
		t.Errorf("got %v", err)
	}
}
