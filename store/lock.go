package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dirLock is an advisory lock on the directory itself, so that taking it changes
// nothing on disk. The kernel drops it with the process, however that ends.
type dirLock struct {
	dir  *os.File
	path string // of the LOCK file, which only tells people who holds the lock
	mine bool   // the LOCK file names this process
}

func lockDir(dir string) (*dirLock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	l := &dirLock{dir: f, path: filepath.Join(dir, "LOCK")}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return l, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is held by %s; stop that process, or name another directory",
			ErrInUse, dir, l.holder())
	}
	return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
}

// sign writes who holds the lock. It is not part of taking it: a directory that is
// refused later must not be changed.
func (l *dirLock) sign() error {
	if err := os.WriteFile(l.path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		return fmt.Errorf("write process ID: %w", err)
	}
	l.mine = true
	return nil
}

func (l *dirLock) holder() string {
	data, err := os.ReadFile(l.path)
	pid, perr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || perr != nil {
		return "another process"
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
}

func (l *dirLock) release() error {
	if l.mine {
		_ = os.Remove(l.path) // the lock is what counts, and it goes with the handle
	}
	return l.dir.Close()
}
