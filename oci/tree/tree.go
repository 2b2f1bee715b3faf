package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// PackDir writes the directory that root is, and all below it, as entries below as. Devices,
// pipes and sockets are left out: they mean nothing elsewhere.
func PackDir(w io.Writer, root *os.Root, as string) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return packEntry(archive, root, name, path.Join(as, name))
	})
	return errors.Join(err, archive.Close())
}

func packEntry(archive *tar.Writer, root *os.Root, name, as string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return packHeader(archive, info, "", as+"/")
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return packHeader(archive, info, target, as)
	case !info.Mode().IsRegular():
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return packFile(archive, f, as)
}

// PackFile writes one regular file under the name as.
func PackFile(w io.Writer, f *os.File, as string) error {
	archive := tar.NewWriter(w)
	return errors.Join(packFile(archive, f, as), archive.Close())
}

func packFile(archive *tar.Writer, f *os.File, as string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a directory", as)
	}
	if err := packHeader(archive, info, "", as); err != nil {
		return err
	}
	// A file that grows meanwhile ends where it ended; one that shrinks is an error.
	_, err = io.CopyN(archive, f, info.Size())
	return err
}

func packHeader(archive *tar.Writer, info fs.FileInfo, target, as string) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = as, "", ""
	return archive.WriteHeader(h)
}

// Unpack makes what an archive holds below root. The entry that the archive begins with, and
// all below it, get the name as, unless as is empty. Files that exist are replaced.
func Unpack(r io.Reader, root *os.Root, as string) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name := path.Clean(h.Name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the archive names %q, which lies outside of where it is unpacked", h.Name)
		}
		if as != "" {
			_, below, _ := strings.Cut(name, "/")
			name = path.Join(as, below)
		}
		if err := unpackEntry(archive, h, root, name); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
}

func unpackEntry(archive *tar.Reader, h *tar.Header, root *os.Root, name string) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeSymlink:
		if err := displace(root, name); err != nil {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		return unpackFile(archive, root, name, mode)
	}
	return fmt.Errorf("the archive holds an entry of type %q; only files, directories and links are copied", h.Typeflag)
}

// unpackFile replaces the name rather than what it points to.
func unpackFile(archive io.Reader, root *os.Root, name string, mode fs.FileMode) error {
	if err := displace(root, name); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, archive)
	return errors.Join(err, f.Close())
}

func displace(root *os.Root, name string) error {
	err := root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
