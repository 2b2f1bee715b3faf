package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFileAtomic replaces a small file: after a crash it has the old content or
// the new one, never a mixture.
func writeFileAtomic(path string, data []byte) error {
	tmp := path + ".new"
	if err := writeSynced(tmp, data); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory to sync it: %w", err)
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// tableBytes is the size of the database's tables before it is opened; 0 if there is
// none yet.
func tableBytes(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list tables: %w", err)
	}
	n := int64(0)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".sst" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, fmt.Errorf("list tables: %w", err)
		}
		n += info.Size()
	}
	return n, nil
}
