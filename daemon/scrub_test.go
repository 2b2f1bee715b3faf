package daemon

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store"
	"starling.dev/starling/store/storetest"
)

// A log that is whole keeps its checkpoint; one that lost an entry loses it, so that the
// next start looks at everything.
func TestScrub(t *testing.T) {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	s, err := store.Open(store.Config{Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	actor := storetest.Actor(1)
	commit := func(first uint64) {
		err := s.Commit(crdt.Commit{Batches: []crdt.Batch{storetest.Batch(actor, first, 1, 50)}, HighWater: storetest.Own(actor, first)})
		if err != nil {
			t.Fatal(err)
		}
	}
	there := func() bool {
		_, err := os.Stat(filepath.Join(dir, "checkpoint"))
		return err == nil
	}
	commit(1)
	file, err := s.SaveCheckpoint(1, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
	if err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	scrub := &scrubber{log: quiet}
	if scrub.check(s); !there() {
		t.Error("the checkpoint of a whole log is gone")
	}
	commit(3)
	if scrub.check(s); there() {
		t.Error("entry 2 is missing, and the checkpoint is still there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
