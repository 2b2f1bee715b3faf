package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// stored reads the raw bytes under a key.
func stored(t *testing.T, s *Store, key []byte) []byte {
	t.Helper()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// rot flips one bit of a stored value, behind the back of Badger's checksums.
func rot(t *testing.T, s *Store, base []byte, at int) {
	t.Helper()
	key := partKey(base, 0)
	value := stored(t, s, key)
	value[at] ^= 4
	if err := s.update([]write{{key, value}}); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedBatchIsListedAndMended(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 5)
	a := storetest.Actor(1)
	rot(t, s, batchKey(a, 3), 40)
	mustClose(t, s)

	s = mustOpen(t, cfg)
	r, all := mustRecover(t, s)
	if len(r.Damaged) != 1 || r.Damaged[0].First != 3 || r.Damaged[0].Actor != a || !errors.Is(r.Damaged[0].Err, ErrDamaged) {
		t.Fatalf("damaged: %v", r.Damaged)
	}
	if len(all) != 4 || len(r.Gaps) != 1 || r.Gaps[0] != (crdt.Range{Actor: a, From: 3, To: 3}) {
		t.Fatalf("%d batches, gaps %v", len(all), r.Gaps)
	}
	if got, err := s.Batches(a, 1, 1<<20); err != nil || len(got) != 2 {
		t.Fatalf("served across the damage: %d batches, %v", len(got), err)
	}
	if _, err := s.Batches(a, 3, 1<<20); !errors.Is(err, ErrDamaged) {
		t.Fatalf("served the damage: %v", err)
	}

	mustCommit(t, s, crdt.Commit{Batches: []crdt.Batch{storetest.Batch(a, 3, 1, 200)}})
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 5 {
		t.Fatalf("after mending: %+v, %d batches", r, len(all))
	}
}

// TestDamageIsMendedByAMergedBatch: others may hold as one batch what was several here.
func TestDamageIsMendedByAMergedBatch(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	a := storetest.Actor(1)
	log := storetest.Log(a, 200, 2, 1, 1, 1, 1)
	mustCommit(t, s, crdt.Commit{Batches: log})
	rot(t, s, batchKey(a, 3), 40)
	rot(t, s, batchKey(a, 4), 40)
	mustClose(t, s)

	s = mustOpen(t, cfg)
	mustRecover(t, s)
	merged := storetest.Compact(crdt.Seqs{{From: 3, To: 4}}, log[1:]...)
	mustCommit(t, s, crdt.Commit{Batches: []crdt.Batch{merged}})
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 2 {
		t.Fatalf("after mending: %+v, %d batches", r, len(all))
	}
	if got, err := s.Batches(a, 4, 1<<20); err != nil || len(got) != 1 || got[0].Last() != 6 {
		t.Fatalf("read from the middle: %d batches, %v", len(got), err)
	}
}

func TestDamagedLocalIsNamed(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}})
	rot(t, s, localKey("a"), partHeader)
	r, _ := mustRecover(t, s)
	if len(r.Damaged) != 1 || r.Damaged[0].Local != "a" {
		t.Fatalf("damaged: %v", r.Damaged)
	}
	if _, err := s.Get("a"); !errors.Is(err, ErrDamaged) {
		t.Fatalf("get: %v", err)
	}
	got, err := s.Local("")
	if !errors.Is(err, ErrDamaged) || len(got) != 1 || got[0].Key != "b" {
		t.Fatalf("local: %v, %v", got, err)
	}
}

// TestVanishedKeysAreNoticed: what is missing at the end of an actor's log, or of
// the private key space, leaves no gap; only the sums tell.
func TestVanishedKeysAreNoticed(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	fill(t, s, 1, 5)
	if r, _ := mustRecover(t, s); !r.Sound() {
		t.Fatalf("before: %+v", r)
	}
	if err := s.update([]write{{key: partKey(batchKey(storetest.Actor(1), 5), 0)}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, s); !r.LostBatches || r.LostLocals || len(r.Gaps) != 0 {
		t.Fatalf("without the last batch: %+v", r)
	}
	if err := s.update([]write{{key: partKey(localKey("clock"), 0)}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, s); r.LostBatches || !r.LostLocals {
		t.Fatalf("without a local key: %+v", r)
	}
}

func TestAnOlderValueThatCameBackIsNoticed(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: []byte("old")}}})
	key := partKey(localKey("k"), 0)
	old := stored(t, s, key)
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: []byte("new")}}})
	if err := s.update([]write{{key, old}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, s); !r.LostLocals {
		t.Fatalf("%+v", r)
	}
}

func TestLargeRecordWithAMissingPart(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: bytes.Repeat([]byte("x"), 3*partSize)}}})
	if err := s.update([]write{{key: partKey(localKey("k"), 2)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("k"); !errors.Is(err, ErrDamaged) {
		t.Fatalf("get: %v", err)
	}
}

// TestRottenTableIsMended: Badger leaves out what it can't read of a table. What is
// then missing is known by name, and a peer's copies make the log whole again.
func TestRottenTableIsMended(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 200)
	mustClose(t, s)
	tables, err := filepath.Glob(filepath.Join(cfg.Dir, "db", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	flipByte(t, tables[0], 20_000)

	s = mustOpen(t, cfg)
	r, all := mustRecover(t, s)
	if r.Sound() || len(all) == 200 || len(all) < 20 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
	fetched := crdt.Commit{}
	for seq := uint64(1); seq <= 200; seq++ {
		fetched.Batches = append(fetched.Batches, storetest.Batch(storetest.Actor(1), seq, 1, 200))
	}
	mustCommit(t, s, fetched)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); len(all) != 200 || len(r.Gaps) != 0 || len(r.Damaged) != 0 {
		t.Fatalf("after mending: %+v, %d batches", r, len(all))
	}
}

func flipByte(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0xff
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableMetaIsALostTail(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	value := stored(t, s, metaKey())
	value[20] ^= 1
	if err := s.update([]write{{metaKey(), value}}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, cfg)
	r, all := mustRecover(t, s)
	if r.Verdict.State != LostTail || len(r.Damaged) != 1 || len(all) != 3 {
		t.Fatalf("%+v, %d batches", r, len(all))
	}
	fill(t, s, 4, 4)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, _ := mustRecover(t, s); !r.Sound() {
		t.Fatalf("after the next commit: %+v", r)
	}
}
