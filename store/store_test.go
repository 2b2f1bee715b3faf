package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

func mustOpen(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustRecover(t testing.TB, s *Store) (Recovery, []crdt.Batch) {
	t.Helper()
	var all []crdt.Batch
	r, err := s.Recover(func(b crdt.Batch) error {
		all = append(all, b)
		return nil
	})
	if err != nil {
		t.Fatalf("recover: %v", err)
	}
	return r, all
}

func mustCommit(t testing.TB, s *Store, c crdt.Commit) {
	t.Helper()
	if err := s.Commit(c); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// disk is the store as the conformance suite sees it. A crash copies the files as
// they are while the store is open, which is what a killed process leaves behind.
type disk struct {
	t   *testing.T
	cfg Config
	*Store
}

func (d *disk) Recover() (storetest.Contents, error) {
	var c storetest.Contents
	r, err := d.Store.Recover(func(b crdt.Batch) error {
		c.Batches = append(c.Batches, b)
		return nil
	})
	if err != nil {
		return c, err
	}
	c.HighWater, c.Clean = r.Own, r.Sound()
	c.Local, err = d.Local("")
	return c, err
}

func (d *disk) Crash() error {
	copied := snapshot(d.t, d.cfg.Dir)
	if err := d.Close(); err != nil {
		return err
	}
	d.cfg.Dir = copied
	var err error
	d.Store, err = Open(d.cfg)
	return err
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Disk {
		cfg := testConfig(t.TempDir())
		d := &disk{t: t, cfg: cfg, Store: mustOpen(t, cfg)}
		t.Cleanup(func() { _ = d.Close() })
		return d
	})
}

func TestDirectoryInUseNamesTheProcess(t *testing.T) {
	cfg := testConfig(t.TempDir())
	mustOpen(t, cfg)
	_, err := Open(cfg)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
}

func TestRefusedDirectoriesAreNotChanged(t *testing.T) {
	foreign := format{version: 1, machine: hashMachine("m2")}
	tests := []struct {
		name, file, content string
		want                error
		says                string
	}{
		{"newer", "FORMAT", "starling store\nversion: 2\nwhatever\n", ErrFormat, "upgrade"},
		{"another program's", "FORMAT", "hello\n", ErrFormat, "not one of ours"},
		{"without a version", "FORMAT", "starling store\nversion: x\n", ErrFormat, "version"},
		{"a database without format", "db", "", ErrFormat, "no FORMAT file"},
		{"another machine's", "FORMAT", string(foreign.marshal()), ErrCopied, "copy"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(testConfig(dir))
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("open: %v", err)
			}
			got, err := os.ReadFile(filepath.Join(dir, test.file))
			if err != nil || string(got) != test.content {
				t.Fatalf("file is now %q, %v", got, err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Fatalf("directory now has %v", entries)
			}
		})
	}
}

func TestRebindAcceptsAMovedDisk(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	mustCommit(t, s, crdt.Commit{Batches: []crdt.Batch{storetest.Batch(storetest.Actor(1), 1, 1, 10)}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.MachineID = "m2"
	if _, err := Open(cfg); !errors.Is(err, ErrCopied) {
		t.Fatalf("open on another machine: %v", err)
	}
	cfg.Rebind = true
	s = mustOpen(t, cfg)
	if _, all := mustRecover(t, s); len(all) != 1 {
		t.Fatalf("%d batches", len(all))
	}
	_ = s.Close()
	cfg.Rebind = false
	mustOpen(t, cfg)
}

func TestBatchesServesRanges(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	a := storetest.Actor(2)
	var log []crdt.Batch
	for first := uint64(1); first < 40; first += 4 {
		log = append(log, storetest.Batch(a, first, 4, 100))
	}
	around := []crdt.Batch{storetest.Batch(storetest.Actor(1), 1, 1, 10), storetest.Batch(storetest.Actor(3), 1, 1, 10)}
	mustCommit(t, s, crdt.Commit{Batches: append(around, log...)})
	for _, test := range []struct {
		from     uint64
		maxBytes int
		first    uint64
		count    int
	}{
		{1, 1 << 20, 1, 10}, {4, 1 << 20, 1, 10}, {5, 1 << 20, 5, 9}, {7, 1, 5, 1},
		{1, 1200, 1, 2}, {40, 1 << 20, 37, 1}, {41, 1 << 20, 0, 0}, {100, 1 << 20, 0, 0}, {0, 1 << 20, 1, 10},
	} {
		got, err := s.Batches(a, test.from, test.maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != test.count || len(got) > 0 && got[0].First != test.first {
			t.Errorf("from %d, %d bytes: %d batches", test.from, test.maxBytes, len(got))
		}
	}
	if got, err := s.Batches(storetest.Actor(9), 1, 1<<20); err != nil || len(got) != 0 {
		t.Errorf("unknown actor: %d batches, %v", len(got), err)
	}
}

func TestLocalByPrefix(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{
		{Key: "intent/2", Value: []byte("b")}, {Key: "intent/1", Value: []byte("a")}, {Key: "intents", Value: []byte("c")},
	}})
	got, err := s.Local("intent/")
	if err != nil || len(got) != 2 || got[0].Key != "intent/1" || string(got[1].Value) != "b" {
		t.Fatalf("%v, %v", got, err)
	}
	if v, err := s.Get("intents"); err != nil || string(v) != "c" {
		t.Fatalf("get: %q, %v", v, err)
	}
	if v, err := s.Get("intent"); err != nil || v != nil {
		t.Fatalf("get of an absent key: %q, %v", v, err)
	}
}

func TestInvalidCommitsChangeNothing(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	good := storetest.Batch(storetest.Actor(1), 1, 1, 10)
	noBirth := good
	noBirth.Birth = nil
	for name, c := range map[string]crdt.Commit{
		"no actor":   {Batches: []crdt.Batch{good, {First: 2, Changes: good.Changes}}},
		"no birth":   {Batches: []crdt.Batch{noBirth}},
		"no changes": {Batches: []crdt.Batch{{Actor: storetest.Actor(1), First: 2}}},
		"too large":  {Batches: []crdt.Batch{storetest.Batch(storetest.Actor(1), 2, 11, 100_000)}},
		"bad key":    {Batches: []crdt.Batch{good}, Local: []crdt.LocalWrite{{Key: "a\x00b"}}},
	} {
		if err := s.Commit(c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustCommit(t, s, crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: []byte("v")}}})
	if _, all := mustRecover(t, s); len(all) != 0 {
		t.Errorf("%d batches of refused commits", len(all))
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(crdt.Commit{}); !errors.Is(err, ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.Get("k"); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Recover(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("recover: %v", err)
	}
}
