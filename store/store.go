package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"starling.dev/starling/crdt"
)

// Store is an open data directory. All methods may be called concurrently; commits
// are made one after the other.
type Store struct {
	log  *slog.Logger
	db   *badger.DB
	lock *dirLock

	// gate keeps away, while a read runs, whatever closes the database. Taken before mu.
	gate sync.RWMutex
	// still means that the database was opened without compaction, because the disk
	// has no room for it. Written under gate and mu.
	still atomic.Bool

	// saving is held while a checkpoint is written or dropped. Taken before gate.
	saving sync.Mutex

	mu   sync.Mutex // guards all below
	last meta       // as of the last commit
	// firsts holds the first entry of each actor's last batch; nil until Recover
	// has read them. A batch beyond it need not be looked for.
	firsts    map[crdt.ActorID]uint64
	wal       *walKeeper
	space     *space
	highWater *highWater
	broken    error   // why no more commits are taken
	verdict   Verdict // as found by Open
	metaErr   error   // why Open could not read the record of the last commit
	closed    bool
}

// Open opens the data directory, and makes it if it does not exist. It rolls back a
// commit that did not finish. Errors: [ErrInUse], [ErrFormat], [ErrCopied],
// [ErrDiskFull]; a directory that is refused is not changed.
func Open(cfg Config) (_ *Store, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := syncDir(filepath.Dir(cfg.Dir)); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{log: cfg.Logger, lock: lock, space: newSpace(cfg)}
	if err := s.open(cfg); err != nil {
		if isFull(err) {
			err = fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(cfg Config) error {
	if err := checkFormat(cfg); err != nil {
		return err
	}
	if err := s.space.prepareOpen(); err != nil {
		return err
	}
	if err := s.lock.sign(); err != nil {
		return err
	}
	if err := s.openDB(); err != nil {
		return err
	}
	if err := s.rollBack(); err != nil {
		return err
	}
	return s.openMarks(filepath.Join(cfg.Dir, "highwater"))
}

// openDB opens the database, without compaction where the disk has no room for it:
// Badger would begin at once.
func (s *Store) openDB() error {
	dir := filepath.Join(s.space.dir, "db")
	tables, err := tableBytes(dir)
	if err != nil {
		return err
	}
	free, err := s.space.free()
	if err != nil {
		return err
	}
	s.still.Store(free < normalRoom+tables)
	if err := dropUnbegun(dir); err != nil {
		return err
	}
	db, err := badger.Open(badgerOptions(dir, s.log, !s.still.Load()))
	if err != nil {
		return fmt.Errorf("open database %s: %w", dir, err)
	}
	s.db = db
	// The head of the value log, which stays empty, is synced here once for all.
	if err := db.Sync(); err != nil {
		return fmt.Errorf("sync database %s: %w", dir, err)
	}
	s.wal, err = newWALKeeper(dir)
	return err
}

// reopenDB closes the database and opens it as the disk's room permits now. The
// caller holds gate and mu, or is the only one.
func (s *Store) reopenDB() error {
	if err := errors.Join(s.wal.close(), s.db.Close()); err != nil {
		return fmt.Errorf("close database to open it again: %w", err)
	}
	return s.openDB()
}

// stir opens a still database again, with compaction, once the disk has room.
func (s *Store) stir() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil || !s.still.Load() {
		return err
	}
	free, err := s.space.free()
	if err != nil || free < normalRoom+s.tables() {
		return err
	}
	if err := s.reopenDB(); err != nil {
		return s.fail(err)
	}
	return nil
}

// tables is the size of all tables: as much as compactions write at most.
func (s *Store) tables() int64 {
	n := int64(0)
	for _, level := range s.db.Levels() {
		n += level.Size
	}
	return n
}

// openMarks reads the record of the last commit and the high-water file, and
// judges the one by the other.
func (s *Store) openMarks(path string) error {
	s.last, s.metaErr = s.readMeta()
	h, found, missing, err := openHighWater(path)
	if err != nil {
		return err
	}
	s.highWater = h
	have := s.last.mark
	s.verdict = judge(have, found, missing)
	if s.verdict.State == Clean && have.commit > found.commit {
		// The slots take turns by the number, so the file must not be behind when
		// the next commit comes.
		return h.write(have)
	}
	// The next commit must be above both, or the older of two slots would win.
	s.last.mark.commit = max(have.commit, found.commit)
	return nil
}

// readMeta reads the record of the last commit. A new database has none; where it
// can't be read, the high-water file still shows that there was one.
func (s *Store) readMeta() (m meta, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(metaKey())
		if err != nil {
			return err
		}
		return item.Value(func(v []byte) error {
			m, err = parseMeta(v)
			return err
		})
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return meta{}, nil
	}
	if err != nil {
		return meta{}, fmt.Errorf("%w: read the record of the last commit: %w", ErrDamaged, err)
	}
	return m, nil
}

// trimAbove is how many bytes Recover may have read before the database is reopened.
const trimAbove = 16 << 20

// trim reopens a database that was read in full: each table that was touched stays
// mapped, and would count as this process's memory as long as it lives. Opening
// takes some tens of milliseconds. Without room on the disk it is left as it is.
func (s *Store) trim() error {
	if free, err := s.space.free(); err != nil || free < normalRoom {
		return err
	}
	return s.reopenDB()
}

// Close closes the store, once the reads that run have ended. It is safe to call
// more than once.
//
// On a disk without room for the last table Close answers [ErrDiskFull] and leaves
// the database as a crash would, which loses nothing; the directory stays locked
// until the process ends.
func (s *Store) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.db != nil {
		if err := s.space.prepareClose(s.memtable()); err != nil {
			return fmt.Errorf("close database: %w", err)
		}
		errs = append(errs, s.wal.close(), s.db.Close())
		s.space.afterClose()
	}
	if s.highWater != nil {
		errs = append(errs, s.highWater.close())
	}
	if err := errors.Join(append(errs, s.lock.release())...); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// memtable bounds what closing the database writes out.
func (s *Store) memtable() int64 {
	if s.wal == nil {
		return 0
	}
	return s.wal.used
}

// ReleaseReserve gives the reserved disk space up, so that a few more commits
// succeed on a full disk: those that delete. Nothing is compacted until the reserve
// comes back, with the first commit that finds ample room.
func (s *Store) ReleaseReserve() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.space.release(); err != nil {
		return err
	}
	if err := s.space.prepareClose(s.memtable()); err != nil {
		return err
	}
	if err := s.reopenDB(); err != nil {
		return s.fail(err)
	}
	s.space.mending = true
	return nil
}
