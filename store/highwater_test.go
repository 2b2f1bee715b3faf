package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// fill commits entries from..to of one actor, one by one, as the peer's own.
func fill(t testing.TB, s *Store, from, to uint64) {
	t.Helper()
	a := storetest.Actor(1)
	for seq := from; seq <= to; seq++ {
		mustCommit(t, s, crdt.Commit{
			Batches:   []crdt.Batch{storetest.Batch(a, seq, 1, 200)},
			Local:     []crdt.LocalWrite{{Key: "clock", Value: []byte{byte(seq)}}},
			HighWater: storetest.Own(a, seq),
		})
	}
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// TestOlderDatabaseUnderNewerFile is what a database that opened without its tail
// looks like, whatever the cause.
func TestOlderDatabaseUnderNewerFile(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 10)
	mustClose(t, s)
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(filepath.Join(cfg.Dir, "db"))); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	fill(t, s, 11, 15)
	mustClose(t, s)
	replaceDir(t, filepath.Join(cfg.Dir, "db"), older)

	s = mustOpen(t, cfg)
	r, all := mustRecover(t, s)
	v := r.Verdict
	if v.State != LostTail || v.HaveCommit != 10 || v.WantCommit != 15 || len(all) != 10 {
		t.Fatalf("%v, %d batches", v, len(all))
	}
	if v.Have != storetest.Own(storetest.Actor(1), 10) || v.Want != storetest.Own(storetest.Actor(1), 15) {
		t.Fatalf("have %v, want %v", v.Have, v.Want)
	}

	// Reported once; what is written from here on is not mistaken for old.
	fill(t, s, 11, 11)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 11 || r.Verdict.HaveCommit != 16 {
		t.Fatalf("%v, %d batches", r, len(all))
	}
}

func replaceDir(t *testing.T, dir, by string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(by)); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseThatIsGone(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	mustClose(t, s)
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "db")); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); r.Verdict.State != LostTail || len(all) != 0 {
		t.Fatalf("%v, %d batches", r.Verdict, len(all))
	}
}

func TestHighWaterFileThatIsGoneOrUnreadable(t *testing.T) {
	for name, spoil := range map[string]func(string) error{
		"removed": os.Remove,
		"short":   func(path string) error { return os.Truncate(path, 100) },
		"zeroed":  func(path string) error { return os.WriteFile(path, make([]byte, 2*slotSize), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			s := mustOpen(t, cfg)
			fill(t, s, 1, 3)
			mustClose(t, s)
			if err := spoil(filepath.Join(cfg.Dir, "highwater")); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, cfg)
			if r, all := mustRecover(t, s); r.Verdict.State != Unknown || len(all) != 3 {
				t.Fatalf("%v, %d batches", r.Verdict, len(all))
			}
			fill(t, s, 4, 5)
			mustClose(t, s)
			s = mustOpen(t, cfg)
			if r, _ := mustRecover(t, s); !r.Sound() {
				t.Fatalf("after mending: %v", r)
			}
		})
	}
}

// TestTornSlot: a write of the high-water file that a crash tore was never
// acknowledged, and the slot before it still counts.
func TestTornSlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "highwater")
	h, _, missing, err := openHighWater(path)
	if err != nil || !missing {
		t.Fatalf("new file: missing %v, %v", missing, err)
	}
	for n := uint64(1); n <= 4; n++ {
		if err := h.write(mark{commit: n, own: storetest.Own(storetest.Actor(1), n)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.file.WriteAt([]byte{0xff, 0xff}, 30); err != nil { // commit 4 is in slot 0
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	h, found, missing, err := openHighWater(path)
	if err != nil || missing || found.commit != 3 || found.own.Head.Seq != 3 {
		t.Fatalf("found %v, missing %v, %v", found, missing, err)
	}
	_ = h.close()
}

func TestDatabaseAheadByTheCommitThatCrashed(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	if err := s.highWater.settle(); err != nil {
		t.Fatal(err)
	}
	s.highWater.file.Close() // the crash comes between the database and the file
	a := storetest.Actor(1)
	if err := s.Commit(crdt.Commit{Batches: []crdt.Batch{storetest.Batch(a, 4, 1, 10)}, HighWater: storetest.Own(a, 4)}); err == nil {
		t.Fatal("commit without a high-water file succeeded")
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	r, all := mustRecover(t, s)
	if !r.Sound() || len(all) != 4 || r.Own != storetest.Own(a, 4) {
		t.Fatalf("%v, %d batches", r, len(all))
	}
}

// TestNothingIsWrittenWhileTheFileIsBehind: a commit begins once the file says durably
// that the one before it was there, or not at all.
func TestNothingIsWrittenWhileTheFileIsBehind(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	if err := s.highWater.settle(); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the sync failed")
	under := make(chan error, 1) // its one result
	under <- failed
	s.highWater.under = under
	for range 2 {
		if err := s.Commit(one(4)); !errors.Is(err, ErrBroken) || !errors.Is(err, failed) {
			t.Fatalf("commit after a sync that failed: %v", err)
		}
	}
	_ = s.Close()
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 3 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
}
