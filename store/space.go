package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What Badger may write on its own account after a commit was admitted: the next
// write-ahead log and the table that the full memtable becomes. On top come the
// tables of the compactions that the commit can set off, which are written before
// their inputs are deleted: at most all tables once more, since no two compactions
// share an input.
const (
	openRoom   = 2 * memTableSize // replaying the logs writes them out as tables
	mendRoom   = 1 * memTableSize
	normalRoom = 4 * memTableSize
)

// space guards the disk's free room. Its fields belong to the store's lock.
type space struct {
	dir     string
	reserve string
	size    int64 // of the reserve file
	held    bool  // the reserve is there in full
	mending bool  // the reserve was given up on purpose
	log     *slog.Logger
}

func newSpace(cfg Config) *space {
	return &space{
		dir:     cfg.Dir,
		reserve: filepath.Join(cfg.Dir, "reserve"),
		size:    cfg.ReserveBytes,
		log:     cfg.Logger,
	}
}

// prepareOpen makes room for what opening the database writes, with the reserve if
// need be.
func (s *space) prepareOpen() error {
	fi, err := os.Stat(s.reserve)
	s.held = err == nil && fi.Size() == s.size
	free, err := s.free()
	if err != nil {
		return err
	}
	if free < openRoom && s.held {
		if err := s.release(); err != nil {
			return err
		}
		if free, err = s.free(); err != nil {
			return err
		}
	}
	if free < openRoom {
		return s.full(openRoom, free)
	}
	return s.restore(free)
}

// prepareClose makes room for the table that the last memtable becomes, with the
// reserve if need be.
func (s *space) prepareClose(memtable int64) error {
	need := memtable*5/4 + 1<<20
	free, err := s.free()
	if err != nil {
		return err
	}
	if free < need && s.held {
		if err := s.release(); err != nil {
			return err
		}
		if free, err = s.free(); err != nil {
			return err
		}
	}
	if free < need {
		return s.full(need, free)
	}
	return nil
}

// afterClose makes the reserve again if closing used it: the log that became a table
// left room. The next start may need it.
func (s *space) afterClose() {
	if s.held || s.mending {
		return
	}
	if err := s.allocate(); err != nil {
		_ = os.Remove(s.reserve)
		s.log.Warn("the disk is too full for the reserve", "dir", s.dir, "err", err)
	}
}

// admit checks, before anything is written, that the disk has room for a commit of
// this size and for all that it can set off, where compactions write as much as
// tables at most.
func (s *space) admit(size int, tables int64) error {
	free, err := s.free()
	if err != nil {
		return err
	}
	if !s.held {
		if err := s.restore(free); err != nil {
			return err
		}
		if free, err = s.free(); err != nil {
			return err
		}
	}
	need := normalRoom + tables
	if s.mending {
		need = mendRoom // nothing is compacted meanwhile
	}
	// A commit's bytes go to the write-ahead log first and to a table later.
	need += 2 * int64(size)
	if free < need {
		return s.full(need, free)
	}
	return nil
}

// restore makes the reserve again once there is ample room.
func (s *space) restore(free int64) error {
	if s.held || free < normalRoom+s.size {
		return nil
	}
	if err := s.allocate(); err != nil {
		_ = os.Remove(s.reserve)
		if isFull(err) {
			return nil // someone else was faster; the next commit tries again
		}
		return fmt.Errorf("reserve disk space in %s: %w", s.reserve, err)
	}
	s.held, s.mending = true, false
	return nil
}

func (s *space) allocate() error {
	f, err := os.OpenFile(s.reserve, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, s.size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		// A sparse file would reserve nothing, and writing zeros may be compressed
		// away; such a file system has no reserve.
		s.log.Warn("file system can't reserve disk space", "dir", s.dir)
		err = f.Truncate(s.size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (s *space) release() error {
	s.held = false
	if err := os.Remove(s.reserve); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release disk reserve: %w", err)
	}
	return nil
}

func (s *space) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", s.dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func (s *space) full(need, free int64) error {
	return fmt.Errorf("%w: %s has %d MiB free, %d MiB are needed; free some space there",
		ErrDiskFull, s.dir, free>>20, (need+1<<20-1)>>20)
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
