package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"starling.dev/starling/oci/tree"
)

// ReadFiles writes a file or directory of a running container as an archive. The container
// needs no program for it. Links are followed as a process in the container would.
func (r *Runtime) ReadFiles(ctx context.Context, podID, container, name string, w io.Writer) error {
	return r.inFiles(ctx, podID, container, func(top *os.File) error {
		f, err := openInside(top, name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			root, err := os.OpenRoot(own(f))
			if err != nil {
				return err
			}
			defer root.Close()
			return tree.PackDir(w, root, path.Base(path.Clean("/"+name)))
		}
		content, err := os.Open(own(f))
		if err != nil {
			return err
		}
		defer content.Close()
		return tree.PackFile(w, content, path.Base(name))
	})
}

// WriteFiles makes what an archive holds in a running container: below name if that is a
// directory, else under this name in the directory that it lies in.
func (r *Runtime) WriteFiles(ctx context.Context, podID, container, name string, archive io.Reader) error {
	return r.inFiles(ctx, podID, container, func(top *os.File) error {
		into, as := name, ""
		dir, err := openInside(top, into, unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			into, as = path.Split(path.Clean("/" + name))
			dir, err = openInside(top, into, unix.O_DIRECTORY)
		}
		if err != nil {
			return err
		}
		defer dir.Close()
		root, err := os.OpenRoot(own(dir))
		if err != nil {
			return err
		}
		defer root.Close()
		return tree.Unpack(archive, root, as)
	})
}

// inFiles calls f with the root directory of a running container.
func (r *Runtime) inFiles(ctx context.Context, podID, container string, f func(top *os.File) error) error {
	task, err := r.runningTask(r.in(ctx), podID, container)
	if err != nil {
		return err
	}
	top, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", task.Pid()), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("reach the files of container %s: %w", container, err)
	}
	defer top.Close()
	return f(top)
}

// openInside opens a name as a process that has top for its root directory would.
func openInside(top *os.File, name string, flags ...uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for _, f := range flags {
		how.Flags |= f
	}
	fd, err := unix.Openat2(int(top.Fd()), name, &how)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// own is a name for what is open, for those that take names only.
func own(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
