package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killAgain is how often a guard kills once the deadline has passed: a container that was
// on its way then may start after it.
const killAgain = 100 * time.Millisecond

// BootTime reads CLOCK_BOOTTIME, which counts while the machine sleeps and never jumps.
func BootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("Linux has had CLOCK_BOOTTIME since 2.6.39: %v", err))
	}
	return time.Duration(t.Nano())
}

// RunGuard is the whole of `peer guard ARG`, the process beside a leased pod that kills
// its containers when the lease ends, whether the peer lives or not. ARG comes from
// guardArg: the file with the deadline, and the pod's cgroup. It returns when that file
// is gone, or if another guard is at work.
func RunGuard(args []string) error {
	if len(args) != 1 {
		return errors.New("peer guard is started by the peer, with one argument")
	}
	arg, err := url.Parse(args[0])
	if err != nil {
		return fmt.Errorf("read the guard's argument: %w", err)
	}
	// The process lives as long as the pod: keep it small.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	lock, held, err := lockGuard(arg.Path)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := reportGuarding(); err != nil || held {
		return err
	}
	return guard(arg.Path, arg.Query().Get("cgroup"))
}

func guardArg(file, cgroup string) string {
	target := url.URL{Path: file, RawQuery: url.Values{"cgroup": {cgroup}}.Encode()}
	return target.String()
}

// lockGuard makes sure that a pod has one guard; held says that it has another.
func lockGuard(file string) (lock *os.File, held bool, err error) {
	lock, err = os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("guard a lease: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, errors.Join(fmt.Errorf("guard a lease: lock %s: %w", lock.Name(), err), lock.Close())
	}
	return lock, err != nil, nil
}

// fdGuarding is where a guard writes one byte once the pod is guarded.
const fdGuarding = 3

func reportGuarding() error {
	ready := os.NewFile(fdGuarding, "guarding")
	if _, err := ready.Write([]byte{0}); err != nil {
		return fmt.Errorf("tell the peer that the pod is guarded: %w; peer guard is started by the peer", err)
	}
	return ready.Close()
}

// guard kills whatever is in the cgroup while the deadline has passed.
func guard(file, cgroup string) error {
	for {
		until, err := readDeadline(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// A file that can't be read promises nothing.
		if left := until - BootTime(); err == nil && left > 0 {
			if err := sleepUntil(until); err != nil {
				return err
			}
			continue
		}
		killCgroup(cgroup)
		if err := sleepUntil(BootTime() + killAgain); err != nil {
			return err
		}
	}
}

func readDeadline(file string) (time.Duration, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return time.Duration(n), err
}

// writeDeadline replaces the file as a whole: a guard reads the old deadline or the new.
func writeDeadline(file string, until time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, strconv.AppendInt(nil, int64(until), 10), 0o600); err != nil {
		return fmt.Errorf("note a lease's end: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("note a lease's end: %w", err)
	}
	return nil
}

// sleepUntil waits on the boot-time clock, unlike time.Sleep, whose clock stands still
// while the machine sleeps.
func sleepUntil(at time.Duration) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("wait for a lease's end: %w", err)
	}
	defer unix.Close(fd)
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &when, nil); err != nil {
		return fmt.Errorf("wait for a lease's end: %w", err)
	}
	var expired [8]byte
	for {
		if _, err := unix.Read(fd, expired[:]); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// killCgroup kills every process of a cgroup and of those below it, in whichever
// hierarchy they are. What it can't kill now is tried again.
func killCgroup(cgroup string) {
	if os.WriteFile(filepath.Join(cgroupRoot, cgroup, "cgroup.kill"), []byte("1"), 0o600) == nil {
		return
	}
	// cgroup v1, or a kernel before 5.14.
	roots, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", cgroup))
	for _, root := range append(roots, filepath.Join(cgroupRoot, cgroup)) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "cgroup.procs" {
				killListed(path)
			}
			return nil
		})
	}
}

func killListed(procs string) {
	raw, err := os.ReadFile(procs)
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
