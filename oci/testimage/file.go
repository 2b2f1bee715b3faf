package testimage

import (
	"archive/tar"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// file is one regular file of the image.
type file struct {
	path    string
	mode    int64
	content []byte
}

func (f file) write(w *tar.Writer) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(f.path, "/"),
		Mode:     f.mode,
		Size:     int64(len(f.content)),
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s of the test image: %w", f.path, err)
	}
	if _, err := w.Write(f.content); err != nil {
		return fmt.Errorf("write %s of the test image: %w", f.path, err)
	}
	return nil
}

// sorted lists extra files in the order of their paths.
func sorted(files map[string]string) []file {
	var list []file
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, file{path, 0o644, []byte(files[path])})
	}
	return list
}
