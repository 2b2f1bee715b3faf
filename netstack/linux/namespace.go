package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsfsMagic is the type of the file system that namespaces live in.
const nsfsMagic = 0x6e736673

const threadNamespace = "/proc/thread-self/ns/net"

// Within runs f on a thread that is in the network namespace open at fd, and waits for
// it. Processes and sockets that f starts belong to that namespace; goroutines don't.
func Within(fd int, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a locked thread, which may change its network namespace. The
// thread returns to its namespace, or else ends with its goroutine.
func onThread(f func() error) error {
	done := make(chan error, 1) // one result, so that the goroutine always ends
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open(threadNamespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- fmt.Errorf("open the thread's network namespace: %w", err)
			return
		}
		defer unix.Close(home)
		err = f()
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// OpenNamespace opens the named network namespace bound at path, the process's own if path is
// empty. The caller closes it.
// The error is fs.ErrNotExist if there is none, which a plain file left over from
// before a reboot counts as.
func OpenNamespace(path string) (fd int, err error) {
	if path == "" {
		path = threadNamespace // of a thread that is not in another one just now
	}
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open network namespace", Path: path, Err: err}
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "open network namespace", Path: path, Err: err}
	}
	if st.Type != nsfsMagic {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "open network namespace", Path: path, Err: fs.ErrNotExist}
	}
	return fd, nil
}

// MakeNamespace opens the network namespace bound at path, and makes it first if there
// is none. The caller closes it.
func MakeNamespace(path string) (fd int, made bool, err error) {
	fd, err = OpenNamespace(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return fd, false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return -1, false, fmt.Errorf("make the directory of network namespaces: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o444)
	if err != nil {
		return -1, false, fmt.Errorf("make network namespace: %w", err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount(threadNamespace, path, "none", unix.MS_BIND, "")
	})
	if err != nil {
		return -1, false, fmt.Errorf("make network namespace %s: %w", path, err)
	}
	fd, err = OpenNamespace(path)
	return fd, true, err
}

// RemoveNamespace unbinds and removes a named network namespace. What runs in it keeps
// it alive, unnamed. Removing what is not there is no error.
func RemoveNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing, or nothing more, is mounted there
		}
		if err != nil {
			return fmt.Errorf("unbind network namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}
