package store

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// largeCommit needs several transactions; it inserts, replaces and deletes.
func largeCommit() crdt.Commit {
	var c crdt.Commit
	for n := range byte(3) {
		c.Batches = append(c.Batches, storetest.Batch(storetest.Actor(n+2), 1, 2500, 300))
	}
	for n := range 200 {
		w := crdt.LocalWrite{Key: fmt.Sprintf("k%03d", n), Value: bytes.Repeat([]byte{2}, 5000)}
		if n%5 == 0 {
			w.Value = nil
		}
		c.Local = append(c.Local, w)
	}
	return c
}

// stopAfter runs the first n transactions of a large commit, as a crash would.
func stopAfter(t *testing.T, s *Store, c crdt.Commit, n int) (parts int) {
	t.Helper()
	p, err := s.plan(c)
	if err != nil {
		t.Fatal(err)
	}
	for rest := p.changes; len(rest) > 0; parts++ {
		k := s.partLen(rest)
		if parts < n {
			undo := undoKey(parts)
			writes := append(writesOf(rest[:k]), write{undo, sealPart(undo, 1, encodeUndo(rest[:k]))})
			if err := s.update(writes); err != nil {
				t.Fatal(err)
			}
		}
		rest = rest[k:]
	}
	return parts
}

func TestUnfinishedLargeCommitIsRolledBack(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	before := crdt.Commit{Batches: []crdt.Batch{storetest.Batch(storetest.Actor(1), 1, 2, 50)}}
	for n := range 100 {
		before.Local = append(before.Local, crdt.LocalWrite{Key: fmt.Sprintf("k%03d", n), Value: bytes.Repeat([]byte{1}, 3000)})
	}
	mustCommit(t, s, before)
	c := largeCommit()
	parts := stopAfter(t, s, c, 0)
	if parts < 3 {
		t.Fatalf("the commit has %d parts, too few for this test", parts)
	}
	for n := 1; n <= parts; n++ {
		stopAfter(t, s, c, n)
		mustClose(t, s)
		s = mustOpen(t, cfg)
		r, all := mustRecover(t, s)
		local, err := s.Local("")
		if !r.Sound() || len(all) != 1 || err != nil || len(local) != 100 {
			t.Fatalf("after %d parts: %+v, %d batches, %d local keys, %v", n, r, len(all), len(local), err)
		}
		for i, l := range local {
			if !bytes.Equal(l.Value, before.Local[i].Value) {
				t.Fatalf("after %d parts: %q has another value", n, l.Key)
			}
		}
	}
	mustCommit(t, s, c)
	mustClose(t, s)
	s = mustOpen(t, cfg)
	if r, all := mustRecover(t, s); !r.Sound() || len(all) != 4 {
		t.Fatalf("after the whole commit: %+v, %d batches", r, len(all))
	}
}

func TestUndoRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []change
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			c := change{write: write{key: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key")}}
			if rapid.Bool().Draw(t, "had") {
				c.old = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "old")
			}
			changes = append(changes, c)
		}
		got, err := decodeUndo(encodeUndo(changes))
		if err != nil || len(got) != len(changes) {
			t.Fatalf("%d of %d changes, %v", len(got), len(changes), err)
		}
		for i, w := range got {
			c := changes[i]
			if !bytes.Equal(w.key, c.key) || !bytes.Equal(w.value, c.old) || (w.value == nil) != (c.old == nil) {
				t.Fatalf("change %d: %v, want %v", i, w, c)
			}
		}
	})
}

func FuzzDecodeUndo(f *testing.F) {
	f.Add(encodeUndo([]change{{write: write{key: []byte("k")}, old: []byte("v")}, {write: write{key: []byte("n")}}}))
	f.Add([]byte{0, 0, 0, 9, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		writes, err := decodeUndo(b)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		for _, w := range writes {
			if len(w.key)+len(w.value) > len(b) {
				t.Fatal("more bytes than there were")
			}
		}
	})
}

func FuzzParseFormat(f *testing.F) {
	f.Add(format{version: 1, machine: "ab"}.marshal())
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseFormat(data)
		if err == nil && got.version == formatVersion && !bytes.Equal(got.marshal(), data) {
			t.Fatalf("%q reads as %+v", data, got)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add(mark{commit: 3, own: storetest.Own(storetest.Actor(1), 2)}.marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := parseMark(b); ok && !bytes.Equal(m.marshal(), b[:markLen]) {
			t.Fatalf("%x reads as %+v", b, m)
		}
	})
}
