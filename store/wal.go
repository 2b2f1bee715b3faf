package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walKeeper follows Badger's write-ahead logs, and syncs them. Badger makes each as a
// sparse file that it writes through a memory map, and does not sync its name. So the
// keeper allocates the blocks of a new log ahead of their use (a full disk would
// otherwise end the process with SIGBUS) and syncs the directory before a commit that
// began a new log is acknowledged.
//
// Left to itself Badger would sync the value log with each commit, too, which holds
// nothing here.
type walKeeper struct {
	dir  string
	log  *os.File // the newest, nil before there is one
	next int      // the number that the next log will get
	used int64    // at least what was written to the newest log
}

// walBytes is as far as Badger can write into one log: it is full at memTableSize,
// and one transaction (15% of that at most) may come on top.
const walBytes = memTableSize + memTableSize/4

// dropUnbegun removes the logs that a crash left without a byte. Badger makes a log's
// name first and gives it its size afterwards, and refuses to open a database in which
// it was stopped between the two. Nothing is lost with such a file: a commit is
// acknowledged when its log was synced, size included.
func dropUnbegun(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new database
	}
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Size() == 0 {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil {
			return fmt.Errorf("remove empty log: %w", err)
		}
	}
	return nil
}

func newWALKeeper(dir string) (*walKeeper, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list write-ahead logs: %w", err)
	}
	k := &walKeeper{dir: dir, next: 1}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".mem")
		if n, err := strconv.Atoi(name); ok && err == nil {
			k.next = max(k.next, n)
		}
	}
	return k, k.follow()
}

// sync makes durable what the last transaction wrote: all of it is in the newest log,
// since Badger begins another only before a transaction.
func (k *walKeeper) sync() error {
	if err := k.follow(); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(k.log.Fd())); err != nil {
		return fmt.Errorf("sync write-ahead log: %w", err)
	}
	return nil
}

func (k *walKeeper) close() error {
	if k == nil || k.log == nil {
		return nil
	}
	return k.log.Close()
}

// follow prepares the logs that began since it was last called. It costs one failed
// stat when there are none.
func (k *walKeeper) follow() error {
	began := false
	for {
		err := k.open(filepath.Join(k.dir, fmt.Sprintf("%05d.mem", k.next)))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return fmt.Errorf("prepare write-ahead log: %w", err)
		}
		began = true
		k.used = 0
		k.next++
	}
	if !began {
		return nil
	}
	return syncDir(k.dir)
}

// open opens a log in the place of the one before, and allocates its blocks.
func (k *walKeeper) open(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = k.close()
	k.log = f
	if full := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, walBytes); !errors.Is(full, unix.EOPNOTSUPP) && !isFull(full) {
		err = errors.Join(err, full) // else the check before each commit has to do alone
	}
	return err
}
