package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watched is a process held by a pidfd, so that its number can't be mistaken for
// another's, whether or not it is our child.
type watched struct {
	file  *os.File
	pid   int
	child *exec.Cmd // nil for an adopted process
}

// watch opens a running process. The error is os.ErrProcessDone if there is none.
func watch(pid int) (*watched, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", pid, err)
	}
	return &watched{file: os.NewFile(uintptr(fd), "pidfd"), pid: pid}, nil
}

// Wait returns when the process has ended, or with ctx's error.
func (w *watched) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { w.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", w.pid, err)
	}
	if err := conn.Read(pidfdEnded); err != nil {
		w.file.SetReadDeadline(time.Time{})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("wait for process %d: %w", w.pid, err)
	}
	if w.child != nil {
		return w.child.Wait()
	}
	return nil
}

// pidfdEnded tells whether a pidfd is readable, which it is once its process ended.
func pidfdEnded(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// signal sends s; a process that has ended needs none.
func (w *watched) signal(s syscall.Signal) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("signal process %d: %w", w.pid, err)
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) }); err != nil {
		return fmt.Errorf("signal process %d: %w", w.pid, err)
	}
	if sent != nil && !errors.Is(sent, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", w.pid, sent)
	}
	return nil
}

// Close lets go of the process, which goes on.
func (w *watched) Close() { w.file.Close() }
