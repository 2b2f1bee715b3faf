package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// saveText saves a checkpoint that holds a text, and reads it back.
func saveText(s *Store, text string) error {
	f, err := s.SaveCheckpoint(int64(len(text)), func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if string(data) != text {
		err = errors.Join(err, fmt.Errorf("what was saved reads %q", data))
	}
	return errors.Join(err, f.Close())
}

// checkpointOf reads the checkpoint; "" for none.
func checkpointOf(t *testing.T, s *Store) string {
	t.Helper()
	f, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		return ""
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A checkpoint is there as a whole or not at all: one that could not be written to its
// end, or was being written when the machine stopped, leaves the one before.
func TestCheckpointIsReplacedAsAWhole(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 3)
	if got := checkpointOf(t, s); got != "" {
		t.Errorf("there is %q before any was saved", got)
	}
	if err := saveText(s, "first"); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken off")
	_, err := s.SaveCheckpoint(9, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of")
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) || checkpointOf(t, s) != "first" {
		t.Errorf("after %v there is %q", err, checkpointOf(t, s))
	}
	mustClose(t, s)
	if err := os.WriteFile(filepath.Join(cfg.Dir, checkpointNew), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	if got := checkpointOf(t, s); got != "first" {
		t.Errorf("after a stop on the way there is %q", got)
	}
	if err := saveText(s, "second"); err != nil || checkpointOf(t, s) != "second" {
		t.Errorf("%v, %q", err, checkpointOf(t, s))
	}
	if err := s.DropCheckpoint(); err != nil || checkpointOf(t, s) != "" {
		t.Errorf("dropped, there is %q, %v", checkpointOf(t, s), err)
	}
	mustClose(t, s)
}

// A database that lost its tail goes on from no checkpoint.
func TestNoCheckpointForADatabaseWithoutItsTail(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 5)
	mustClose(t, s)
	older := t.TempDir()
	if err := os.CopyFS(older, os.DirFS(filepath.Join(cfg.Dir, "db"))); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	fill(t, s, 6, 8)
	if err := saveText(s, "of 8 entries"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	replaceDir(t, filepath.Join(cfg.Dir, "db"), older)
	s = mustOpen(t, cfg)
	if got := checkpointOf(t, s); got != "" {
		t.Errorf("there is %q", got)
	}
	mustClose(t, s)
}

func headOf(actor byte, seq uint64, count, size int) crdt.Head {
	b := storetest.Batch(storetest.Actor(actor), seq, count, size)
	return b.Head()
}

// RecoverSince hands out what reaches beyond the heads, of actors known or not, and
// refuses heads that the log does not hold.
func TestRecoverSince(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	fill(t, s, 1, 10)
	other := crdt.Commit{Batches: []crdt.Batch{
		storetest.Batch(storetest.Actor(2), 1, 3, 50), storetest.Batch(storetest.Actor(2), 4, 3, 50), storetest.Batch(storetest.Actor(3), 1, 1, 50),
	}}
	mustCommit(t, s, other)
	mustClose(t, s)

	inside := storetest.Batch(storetest.Actor(2), 4, 3, 50).Hashes()[1]
	one, two, three := storetest.Actor(1), storetest.Actor(2), storetest.Actor(3)
	for _, tt := range []struct {
		name  string
		heads crdt.Heads
		want  map[crdt.ActorID]int // batches
		err   bool
	}{
		{"all of one, part of another", crdt.Heads{one: headOf(1, 10, 1, 200), two: headOf(2, 1, 3, 50)}, map[crdt.ActorID]int{two: 1, three: 1}, false},
		{"the head is inside a batch", crdt.Heads{one: headOf(1, 7, 1, 200), two: {Seq: 5, Hash: inside}}, map[crdt.ActorID]int{one: 3, two: 1, three: 1}, false},
		{"nothing known", crdt.Heads{}, map[crdt.ActorID]int{one: 10, two: 2, three: 1}, false},
		{"an entry with another hash", crdt.Heads{one: {Seq: 7, Hash: crdt.ID{1}}}, nil, true},
		{"an entry that is not there", crdt.Heads{one: {Seq: 11, Hash: crdt.ID{1}}}, nil, true},
		{"an actor that is not there", crdt.Heads{storetest.Actor(9): headOf(9, 1, 1, 50)}, nil, true},
	} {
		s := mustOpen(t, cfg)
		got := map[crdt.ActorID]int{}
		r, err := s.RecoverSince(tt.heads, func(b crdt.Batch) error {
			got[b.Actor]++
			return nil
		})
		if errors.Is(err, ErrBehind) != tt.err || err != nil && !tt.err {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !tt.err && (!r.Sound() || len(got) != len(tt.want) || got[one] != tt.want[one] || got[two] != tt.want[two] || got[three] != tt.want[three]) {
			t.Errorf("%s: %v, sound %v, want %v", tt.name, got, r.Sound(), tt.want)
		}
		mustClose(t, s)
	}
	s = mustOpen(t, cfg)
	if _, err := s.RecoverSince(crdt.Heads{one: headOf(1, 10, 1, 200)}, func(crdt.Batch) error { return nil }); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 10, 11) // what comes again is told from what is new
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 14 {
		t.Errorf("at the end %d batches, %+v", len(all), r)
	}
	if r, err := s.Check(); err != nil || !r.Sound() || r.Batches != 14 {
		t.Errorf("checked beside commits: %+v, %v", r, err)
	}
	mustClose(t, s)
}
