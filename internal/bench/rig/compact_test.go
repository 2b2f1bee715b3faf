package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// started opens a directory and runs what is in it.
func started(t *testing.T, dir string, retention peer.Retention) *Rig {
	t.Helper()
	r, err := Open(Config{Dir: dir, Machine: 1, Machines: 1, Logger: slog.New(slog.DiscardHandler), Retention: retention})
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	return r
}

func stop(t *testing.T, r *Rig) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// restarted has a pod run with one argument after the other.
func restarted(t *testing.T, r *Rig, times int) {
	t.Helper()
	fields, key := PodFields(), api.Key{Kind: "Pod", Namespace: "default", Name: "web"}
	for i := range times {
		fields["spec.containers.app.args"] = fmt.Sprintf(`["%d"]`, i)
		a, err := r.Loop.Write(t.Context(), peer.Write{Author: "user:alice", Edits: []peer.Edit{
			{Kind: peer.EditApply, Key: key, Fields: fields},
		}})
		if err := errors.Join(err, orNil(a.Err)); err != nil {
			t.Fatal(err)
		}
		for attempt := 0; attempt <= i; {
			turned := r.Loop.Turned()
			if err := r.Loop.Query(t.Context(), func(c *peer.Core) {
				if seen, ok := c.See(key); ok && seen.Object.Results["container"].Phase == lifecycle.PhaseDone {
					attempt = int(seen.Object.Results["container"].Attempt)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if attempt > i {
				break
			}
			select {
			case <-turned:
			case <-t.Context().Done():
				t.Fatal("the pod does not run")
			}
		}
	}
}

// shrunk waits until the log was compacted, and returns what it takes then.
func shrunk(t *testing.T, r *Rig, from int) int {
	t.Helper()
	for {
		turned := r.Loop.Turned()
		last, err := r.Stored()
		if err != nil {
			t.Fatal(err)
		}
		if last < from {
			if last, err = r.Rested(t.Context()); err != nil {
				t.Fatal(err)
			}
			return last
		}
		select {
		case <-turned:
		case <-t.Context().Done():
			t.Fatalf("%d bytes became %d", from, last)
		}
	}
}

// TestCompaction on a real disk: the log shrinks, and a start from it gives the same state.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	r := started(t, dir, peer.Retention{})
	restarted(t, r, 30)
	before, err := r.Rested(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, r)

	small := peer.Retention{Budget: 1, Keep: time.Millisecond, Every: 100 * time.Millisecond}
	r = started(t, dir, small)
	after := shrunk(t, r, before)
	t.Logf("%d bytes became %d", before, after)
	heads, state, err := r.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, r)
	if err := os.Remove(filepath.Join(dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}

	r = started(t, dir, small)
	defer stop(t, r)
	var folded, compacted crdt.ID
	if err := r.Loop.Query(context.Background(), func(c *peer.Core) { folded, compacted = c.StateHash(), c.Digest().Compacted }); err != nil {
		t.Fatal(err)
	}
	if folded != state || compacted.IsZero() {
		t.Errorf("folded from stubs the state of %v is %v, not %v", heads, folded, state)
	}
}
