package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
)

// spawn starts the peer of machine n in its network namespace, in a session of its
// own, so that it outlives the command that started it.
func (l *Lab) spawn(n int, args []string) error {
	if err := os.MkdirAll(l.nodeDir(n), 0o700); err != nil {
		return fmt.Errorf("make the directory of %s: %w", Name(n), err)
	}
	log, err := os.OpenFile(filepath.Join(l.nodeDir(n), "peer.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", Name(n), err)
	}
	defer log.Close()
	cmd := exec.Command(l.cfg.Program, append(args, l.flags(n)...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := l.lan.Within(n, cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", Name(n), err)
	}
	pid := cmd.Process.Pid
	go cmd.Wait() // a child that ends while this process lives must not stay a zombie
	return os.WriteFile(l.pidFile(n), []byte(strconv.Itoa(pid)), 0o600)
}

func (l *Lab) flags(n int) []string {
	flags := []string{
		"--data=" + filepath.Join(l.nodeDir(n), "data"), "--listen-socket=" + l.Socket(n), "--name=" + Name(n),
		"--scope=" + l.Namespace(n), "--containerd=" + l.state.Socket,
		"--machine-id=lab-" + l.cfg.Name + "-" + strconv.Itoa(n),
	}
	if v := nth(l.state.CPU, n); v != "" {
		flags = append(flags, "--cpu="+v)
	}
	if v := nth(l.state.Memory, n); v != "" {
		flags = append(flags, "--memory="+v)
	}
	if l.state.WireGuard {
		flags = append(flags, "--wireguard")
	}
	return flags
}

// nth is the value for machine n; the last one counts for the rest.
func nth(values []string, n int) string {
	if len(values) == 0 {
		return ""
	}
	return values[min(n, len(values))-1]
}

func (l *Lab) pidFile(n int) string { return filepath.Join(l.nodeDir(n), "pid") }

// running returns the pid of machine n's peer. A pid that another program has by now
// does not count.
func (l *Lab) running(n int) (pid int, ok bool) {
	raw, err := os.ReadFile(l.pidFile(n))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && len(line) == 0 {
		return pid, beginning(pid)
	}
	return pid, err == nil && bytes.Contains(line, []byte("--data="+filepath.Join(l.nodeDir(n), "data")))
}

// beginning tells a process that the kernel has not given its arguments yet, in the midst
// of execve, from one that has ended: neither shows a command line.
func beginning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, found := bytes.Cut(stat, []byte(") ")) // behind the program's name
	return err == nil && found && !bytes.HasPrefix(after, []byte("Z")) && !bytes.HasPrefix(after, []byte("X"))
}

// PID is the process of machine n's peer; 0 if it does not run.
func (l *Lab) PID(n int) int {
	if pid, ok := l.running(n); ok {
		return pid
	}
	return 0
}

// signal sends a signal to machine n's peer and waits for its end.
func (l *Lab) signal(n int, sig syscall.Signal, patience time.Duration) error {
	pid, ok := l.running(n)
	if !ok {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has just ended
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %v to %s (pid %d): %w", sig, Name(n), pid, err)
	}
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		ready, err := unix.Poll(polled, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if ready == 0 {
			return fmt.Errorf("%s (pid %d) did not end within %s of %v", Name(n), pid, patience, sig)
		}
		return err
	}
}

// stop ends machine n's peer, gently first.
func (l *Lab) stop(n int) error {
	if err := l.signal(n, unix.SIGTERM, 10*time.Second); err == nil {
		return nil
	}
	return l.signal(n, unix.SIGKILL, 10*time.Second)
}

// KillPeer ends machine n's peer with SIGKILL, and leaves its pods running.
func (l *Lab) KillPeer(n int) error {
	if err := l.need(n); err != nil {
		return err
	}
	return l.signal(n, unix.SIGKILL, 10*time.Second)
}

// Stop ends machine n's peer with SIGTERM, and leaves its pods running.
func (l *Lab) Stop(n int) error {
	if err := l.need(n); err != nil {
		return err
	}
	return l.signal(n, unix.SIGTERM, 30*time.Second)
}

// Kill is a power cut of machine n: cable, peer and containers at once.
func (l *Lab) Kill(ctx context.Context, n int) error {
	if err := l.need(n); err != nil {
		return err
	}
	return errors.Join(
		l.lan.LinkDown(n),
		l.signal(n, unix.SIGKILL, 10*time.Second),
		l.cfg.Runtime.Kill(ctx, l.state.Socket, l.Namespace(n)),
	)
}

// Start boots machine n again.
func (l *Lab) Start(ctx context.Context, n int) error {
	if err := l.need(n); err != nil {
		return err
	}
	if err := l.lan.LinkUp(n); err != nil {
		return err
	}
	return l.bring(ctx, n)
}

// lastLines is the end of machine n's log.
func (l *Lab) lastLines(n int) string {
	raw, err := os.ReadFile(filepath.Join(l.nodeDir(n), "peer.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// Log is the path of machine n's log.
func (l *Lab) Log(n int) string { return filepath.Join(l.nodeDir(n), "peer.log") }

// highest is the greatest number of a machine that left a directory behind.
func (l *Lab) highest() int {
	most := 0
	entries, err := os.ReadDir(l.dir())
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// removePodNamespaces removes the network namespaces of the lab's pods.
func (l *Lab) removePodNamespaces() error {
	found, err := filepath.Glob(filepath.Join(linux.DefaultNamespaces, "starling.starling-"+l.cfg.Name+"-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range found {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("remove %s: %w", path, err))
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
