package crdt

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// history is an actor's whole log, to cut batches from. Its entries are opaque: a
// log does not look into changes.
type history struct {
	birth   Birth
	actor   ActorID
	entries [][]byte
	hashes  []ID
}

func newHistory(key byte, entries ...string) *history {
	h := &history{birth: Birth{PublicKey: public(testKey(key)), Nonce: 1}}
	h.actor = h.birth.ActorID()
	for _, e := range entries {
		h.entries = append(h.entries, []byte(e))
	}
	h.hashes = Batch{Actor: h.actor, First: 1, Birth: &h.birth, Changes: h.entries}.Hashes()
	return h
}

// batch cuts the entries from..to.
func (h *history) batch(from, to uint64) Batch {
	b := Batch{Actor: h.actor, First: from, Changes: h.entries[from-1 : to]}
	if from == 1 {
		b.Birth = &h.birth
	} else {
		b.Prev = h.hashes[from-2]
	}
	return b
}

func (h *history) head(seq uint64) Head { return Head{seq, h.hashes[seq-1]} }

// newLog returns a log over a store that holds the history.
func newLog(t testing.TB, h *history) *Log {
	t.Helper()
	l, err := NewLog(LogConfig{HashAt: func(actor ActorID, seq uint64) (ID, bool) {
		if h == nil || actor != h.actor || seq == 0 || seq > uint64(len(h.hashes)) {
			return ID{}, false
		}
		return h.hashes[seq-1], true
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func accept(t testing.TB, l *Log, b Batch) Accepted {
	t.Helper()
	a, err := l.Accept(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestVerdicts(t *testing.T) {
	h := newHistory(1, "a", "b", "c", "d", "e", "f")
	fork := newHistory(1, "a", "b", "X", "d", "e", "f")
	for _, c := range []struct {
		name    string
		batch   Batch
		verdict Verdict
		from    uint64
		entries string
		head    Head
	}{
		{"follows the head", h.batch(5, 6), New, 5, "ef", h.head(6)},
		{"overlaps and goes on", h.batch(2, 5), Overlap, 5, "e", h.head(5)},
		{"overlaps from the birth", h.batch(1, 6), Overlap, 5, "ef", h.head(6)},
		{"ends at the head", h.batch(3, 4), Duplicate, 5, "", h.head(4)},
		{"lies below the head", h.batch(1, 2), Duplicate, 5, "", h.head(4)},
		{"leaves a gap", h.batch(6, 6), Gap, 5, "", h.head(4)},
		{"another entry 3", fork.batch(3, 3), Equivocation, 3, "", h.head(2)},
		{"another entry 3, from the birth", fork.batch(1, 6), Equivocation, 3, "", h.head(2)},
		{"follows another entry 4", fork.batch(5, 6), Equivocation, 4, "", h.head(3)},
		{"the common part of a fork", fork.batch(1, 2), Duplicate, 5, "", h.head(4)},
	} {
		l := newLog(t, h)
		accept(t, l, h.batch(1, 4))
		a := accept(t, l, c.batch)
		if got := string(slices.Concat(a.Changes...)); a.Verdict != c.verdict || a.From != c.from || got != c.entries || a.Head != c.head {
			t.Errorf("%s: %v from %d %q head %v; want %v from %d %q head %v", c.name, a.Verdict, a.From, got, a.Head, c.verdict, c.from, c.entries, c.head)
		}
		if l.Head(h.actor) != a.Head {
			t.Errorf("%s: the log's head is %v, the answer's %v", c.name, l.Head(h.actor), a.Head)
		}
	}
}

func TestUnknownActor(t *testing.T) {
	h := newHistory(1, "a", "b")
	l := newLog(t, nil)
	if a := accept(t, l, h.batch(2, 2)); a.Verdict != Unknown || a.From != 1 {
		t.Errorf("got %v from %d, want unknown from 1", a.Verdict, a.From)
	}
	if _, known := l.Key(h.actor); known {
		t.Error("an unknown actor left a key")
	}
	accept(t, l, h.batch(1, 1))
	if key, known := l.Key(h.actor); !known || !key.Equal(public(testKey(1))) {
		t.Error("the first batch did not bring the key")
	}
}

func TestForeignBirthIsRefused(t *testing.T) {
	h := newHistory(1, "a")
	foreign := h.batch(1, 1)
	foreign.Birth = &Birth{PublicKey: public(testKey(2)), Nonce: 1}
	none := h.batch(1, 1)
	none.Birth = nil
	for _, b := range []Batch{foreign, none} {
		l := newLog(t, nil)
		if _, err := l.Accept(b); !errors.Is(err, ErrBirth) {
			t.Errorf("got %v, want ErrBirth", err)
		}
		if len(l.Heads()) != 0 {
			t.Error("a refused birth moved the head")
		}
	}
}

// Peers that took different branches must end with the same heads once each has
// seen the other's.
func TestForkEndsAlikeEverywhere(t *testing.T) {
	left := newHistory(1, "a", "b", "L", "d", "e")
	right := newHistory(1, "a", "b", "R")
	l, r := newLog(t, left), newLog(t, right)
	accept(t, l, left.batch(1, 5))
	accept(t, r, right.batch(1, 3))
	if l.Digest() == r.Digest() {
		t.Fatal("different branches have one digest")
	}

	missing := l.Missing(r.Heads())
	if want := []Range{{left.actor, 3, 5}}; !reflect.DeepEqual(missing, want) {
		t.Fatalf("missing %v, want %v: the fork must come to light", missing, want)
	}
	accept(t, r, left.batch(3, 5))
	fork := r.Forks()[0]
	if fork.Seq != 3 || fork.Ours != right.hashes[2] || fork.Theirs != left.hashes[2] {
		t.Errorf("the proof is %+v", fork)
	}
	fork.Ours, fork.Theirs, fork.Batch = fork.Theirs, fork.Ours, right.batch(1, 3)
	if !l.Convict(fork) {
		t.Error("Convict does not say that entries must be folded anew")
	}
	if l.Digest() != r.Digest() || l.Head(left.actor) != left.head(2) {
		t.Errorf("heads differ after the fork: %v and %v", l.Heads(), r.Heads())
	}
	if a := accept(t, l, left.batch(3, 4)); a.Verdict != Refused || a.From != 3 {
		t.Errorf("after the fork: %v from %d, want refused from 3", a.Verdict, a.From)
	}
}

func TestForkedActorIsCompletedUpToTheFork(t *testing.T) {
	h := newHistory(1, "a", "b", "c", "d")
	l := newLog(t, h)
	l.Convict(Fork{Actor: h.actor, Seq: 3})
	a := accept(t, l, h.batch(1, 4))
	if a.Verdict != New || len(a.Changes) != 2 || a.Head != h.head(2) {
		t.Errorf("got %v with %d entries to %v; want the two before the fork", a.Verdict, len(a.Changes), a.Head)
	}
}

func TestMissing(t *testing.T) {
	a, b, c := newHistory(1, "a", "b", "c"), newHistory(2, "a", "b"), newHistory(3, "a")
	l := newLog(t, a)
	for _, h := range []*history{a, b, c} {
		accept(t, l, h.batch(1, uint64(len(h.entries))))
	}
	theirs := Heads{a.actor: a.head(1), c.actor: c.head(1)}
	want := []Range{{b.actor, 1, 2}, {a.actor, 2, 3}}
	if got := l.Missing(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("missing %v, want %v: never seen actors first", got, want)
	}
	if got := l.Missing(l.Heads()); got != nil {
		t.Errorf("equal heads lack %v", got)
	}
	if !l.Heads().Dominates(theirs) || theirs.Dominates(l.Heads()) {
		t.Error("a cursor of older heads must be reached, one of newer heads not")
	}
}

func TestDigestDependsOnHeadsOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		histories := []*history{newHistory(1, "a", "b", "c"), newHistory(2, "a", "b"), newHistory(3, "a")}
		stepwise, restored := newLog(t, nil), newLog(t, nil)
		order := rapid.SliceOf(rapid.IntRange(0, 2)).Draw(rt, "order")
		for _, i := range order {
			h := histories[i]
			if next := stepwise.Head(h.actor).Seq + 1; next <= uint64(len(h.entries)) {
				accept(t, stepwise, h.batch(next, next))
			}
		}
		for actor, head := range stepwise.Heads() {
			birth, _ := stepwise.Birth(actor)
			if err := restored.Restore(actor, birth, head); err != nil {
				rt.Fatal(err)
			}
		}
		if stepwise.Digest() != restored.Digest() {
			rt.Fatalf("equal heads %v have two digests", stepwise.Heads())
		}
	})
}

// No byte of a signed batch can be changed unnoticed.
func TestTamperingIsDetected(t *testing.T) {
	for _, b := range []Batch{typicalBatch(typical(), typicalResult()), firstBatch(typical())} {
		pub := public(testKey(1))
		if err := b.Verify(VerifyEd25519, pub); err != nil {
			t.Fatal(err)
		}
		raw := b.Encode()
		for i := range raw {
			raw[i] ^= 0x10
			tampered, err := DecodeBatch(raw)
			if err == nil && tampered.Verify(VerifyEd25519, pub) == nil {
				t.Fatalf("byte %d of %d can be changed", i, len(raw))
			}
			raw[i] ^= 0x10
		}
	}
}

func TestNoKeyVerifiesNothing(t *testing.T) {
	if VerifyEd25519(nil, nil, nil) {
		t.Error("no key at all verifies")
	}
}
