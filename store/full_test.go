package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// smallDisk mounts a file system of its own, which can be filled up for real.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func fullConfig(disk string) Config {
	cfg := testConfig(filepath.Join(disk, "store"))
	cfg.ReserveBytes = defaultReserve
	return cfg
}

// fillDisk is another program that takes all but left bytes.
func fillDisk(t *testing.T, disk string, left int64) (free func()) {
	t.Helper()
	avail := freeBytes(t, disk)
	path := filepath.Join(disk, "filler")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, fi.Size(), avail-left); err != nil {
		t.Fatalf("fill: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func freeBytes(t *testing.T, disk string) int64 {
	t.Helper()
	n, err := (&space{dir: disk}).free()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func one(seq uint64) crdt.Commit {
	a := storetest.Actor(1)
	return crdt.Commit{Batches: []crdt.Batch{storetest.Batch(a, seq, 1, 300)}, HighWater: storetest.Own(a, seq)}
}

func TestFullDiskStopsWritesAndResumes(t *testing.T) {
	disk := smallDisk(t, 128)
	s := mustOpen(t, fullConfig(disk))
	mustCommit(t, s, one(1))
	free := fillDisk(t, disk, 1<<20)

	err := s.Commit(one(2))
	if !errors.Is(err, ErrDiskFull) || errors.Is(err, ErrBroken) {
		t.Fatalf("commit on a full disk: %v", err)
	}
	if got, err := s.Batches(storetest.Actor(1), 1, 1<<20); err != nil || len(got) != 1 {
		t.Fatalf("read on a full disk: %d batches, %v", len(got), err)
	}
	free()
	mustCommit(t, s, one(2))
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 2 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
}

func TestReserveMendsAFullDisk(t *testing.T) {
	disk := smallDisk(t, 128)
	cfg := fullConfig(disk)
	s := mustOpen(t, cfg)
	mustCommit(t, s, one(1))
	free := fillDisk(t, disk, 0)
	if err := s.Commit(one(2)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("commit on a full disk: %v", err)
	}
	if err := s.ReleaseReserve(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, one(2))

	free()
	mustCommit(t, s, one(3))
	if fi, err := os.Stat(filepath.Join(cfg.Dir, "reserve")); err != nil || fi.Size() != cfg.ReserveBytes {
		t.Fatalf("the reserve is not back: %v", err)
	}
	fillDisk(t, disk, 0)
	if err := s.Commit(one(4)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("commit on a full disk, mended before: %v", err)
	}
}

// TestOpenOnAFullDisk: a process that ended while the disk was full starts again
// with the help of the reserve, and reads.
func TestOpenOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 128)
	cfg := fullConfig(disk)
	s := mustOpen(t, cfg)
	mustCommit(t, s, one(1))
	fillDisk(t, disk, 0)
	mustClose(t, s)
	fillDisk(t, disk, 0)

	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 1 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
	if err := s.Commit(one(2)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("commit: %v", err)
	}
	mustClose(t, s)
	fillDisk(t, disk, 0)
	if _, err := Open(cfg); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("open without room and without reserve: %v", err)
	}
}

func TestNoRoomForANewStore(t *testing.T) {
	disk := smallDisk(t, 8)
	if _, err := Open(fullConfig(disk)); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("open: %v", err)
	}
}

// TestStoreFillsTheDiskItself: whatever Badger has in flight when the last commit
// is refused must still find room, or this process would end with SIGBUS. A larger
// disk has more tables when it is full, and larger compactions.
func TestStoreFillsTheDiskItself(t *testing.T) {
	for _, mib := range []int{128, 224, 352} {
		t.Run(fmt.Sprintf("%d MiB", mib), func(t *testing.T) {
			cfg := fullConfig(smallDisk(t, mib))
			s := mustOpen(t, cfg)
			seq := commitUntilFull(t, s, 0)
			mustClose(t, s)
			s = mustOpen(t, cfg)
			seq = commitUntilFull(t, s, seq)
			if r, all := mustRecover(t, s); !r.Sound() || uint64(2*len(all)) != seq {
				t.Fatalf("%+v, %d batches for %d entries", r, len(all), seq)
			}
		})
	}
}

// commitUntilFull returns the last entry that the store took.
func commitUntilFull(t *testing.T, s *Store, seq uint64) uint64 {
	t.Helper()
	for {
		batch := storetest.Batch(storetest.Actor(1), seq+1, 2, 100_000)
		err := s.Commit(crdt.Commit{Batches: []crdt.Batch{batch}})
		if errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrBroken) {
			return seq
		}
		if err != nil {
			t.Fatalf("after %d entries: %v", seq, err)
		}
		seq += 2
	}
}

// TestNothingIsCompactedWithoutRoom: a full disk must not be met by a compaction that
// opening the database sets off, and once there is room the store takes up its work.
func TestNothingIsCompactedWithoutRoom(t *testing.T) {
	disk := smallDisk(t, 352)
	cfg := fullConfig(disk)
	s := mustOpen(t, cfg)
	seq := commitUntilFull(t, s, 0)
	mustClose(t, s)
	free := fillDisk(t, disk, openRoom+1<<20)

	s = mustOpen(t, cfg)
	if !s.still.Load() {
		t.Fatal("the database compacts on a full disk")
	}
	if err := s.ReleaseReserve(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustCommit(t, s, crdt.Commit{Batches: []crdt.Batch{storetest.Batch(storetest.Actor(1), seq+1, 2, 1000)}})
		seq += 2
	}
	if !s.still.Load() {
		t.Fatal("the database compacts on a full disk that is being mended")
	}
	free()
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=1g"); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, crdt.Commit{Batches: []crdt.Batch{storetest.Batch(storetest.Actor(1), seq+1, 2, 1000)}})
	if s.still.Load() {
		t.Fatal("there is room, and the database does not compact")
	}
	if r, all := mustRecover(t, s); !r.Sound() || uint64(2*len(all)) != seq+2 {
		t.Fatalf("%+v, %d batches for %d entries", r, len(all), seq)
	}
}

// TestFailedWriteBreaksTheStore: after a write that failed, only reopening tells
// what is on disk.
func TestFailedWriteBreaksTheStore(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	if err := s.highWater.close(); err != nil {
		t.Fatal(err)
	}
	first := s.Commit(one(4))
	if !errors.Is(first, ErrBroken) || !errors.Is(first, os.ErrClosed) {
		t.Fatalf("commit whose high-water can't be written: %v", first)
	}
	if err := s.Commit(one(5)); !errors.Is(err, ErrBroken) || !errors.Is(err, os.ErrClosed) {
		t.Fatalf("commit after that: %v", err)
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 4 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
	mustCommit(t, s, one(5))
}
