package crdt

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func statement(key byte, seqs Seqs) Compacted {
	return SignCompacted(Compacted{PublicKey: public(testKey(key)), Nonce: 1, Seqs: seqs}, Ed25519Signer(testKey(key)))
}

// TestSeqs holds the set against a plain one.
func TestSeqs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) (s Seqs, plain map[uint64]bool) {
			plain = map[uint64]bool{}
			for range rapid.IntRange(0, 6).Draw(rt, name) {
				from := rapid.Uint64Range(1, 30).Draw(rt, "from")
				to := from + rapid.Uint64Range(0, 5).Draw(rt, "more")
				s = s.With(from, to)
				for n := from; n <= to; n++ {
					plain[n] = true
				}
			}
			return s, plain
		}
		check := func(what string, s Seqs, want func(uint64) bool) {
			for i, p := range s {
				if p.From > p.To || i > 0 && s[i-1].To+1 >= p.From {
					rt.Fatalf("%s: the spans %v are not maximal and in order", what, s)
				}
			}
			count := uint64(0)
			for n := range uint64(50) {
				if s.Has(n) != want(n) {
					rt.Fatalf("%s: %d is in %v: %v", what, n, s, s.Has(n))
				}
				if want(n) {
					count++
				}
			}
			if s.Len() != count {
				rt.Fatalf("%s: %v holds %d numbers, not %d", what, s, count, s.Len())
			}
			r := &reader{rest: string(s.AppendTo(nil))}
			if got := r.seqs(); r.err != nil || r.rest != "" || !slices.Equal(got, s) {
				rt.Fatalf("%s: %v is read back as %v: %v", what, s, got, r.err)
			}
		}
		a, inA := draw("a")
		b, inB := draw("b")
		check("a", a, func(n uint64) bool { return inA[n] })
		check("union", a.Union(b), func(n uint64) bool { return inA[n] || inB[n] })
		check("minus", a.Minus(b), func(n uint64) bool { return inA[n] && !inB[n] })
		check("within", a.Within(7, 19), func(n uint64) bool { return inA[n] && n >= 7 && n <= 19 })
	})
}

// TestStubsKeepTheLog: a log whose content is gone in part has the same hashes, signatures and
// heads, in batches that were cut in another way; and a stub of another change has not.
func TestStubsKeepTheLog(t *testing.T) {
	key := testKey(1)
	h := newHistory(1, "one", "two", "three", "four", "five")
	whole := SignBatch(h.batch(1, 5), Ed25519Signer(key))
	part := whole
	part.Changes = slices.Clone(whole.Changes)
	for _, i := range []int{1, 2} {
		part.Changes[i] = StubOf(ChangeID(h.actor, whole.Changes[i]))
	}
	if whole.Stubs() || !part.Stubs() {
		t.Error("a batch does not tell whether it has stubs")
	}
	read, err := DecodeBatch(part.Encode())
	if err != nil || !slices.Equal(read.Hashes(), whole.Hashes()) {
		t.Fatalf("the hashes with stubs are others, or: %v", err)
	}
	if err := read.Verify(VerifyEd25519, public(key)); err != nil {
		t.Error(err)
	}
	log := newLog(t, h)
	accept(t, log, SignBatch(h.batch(1, 2), Ed25519Signer(key)))
	if a := accept(t, log, read); a.Verdict != Overlap || a.Head != h.head(5) {
		t.Errorf("a log goes on with %v to %v", a.Verdict, a.Head)
	}
	read.Changes[2] = StubOf(idOf("another"))
	if err := read.Verify(VerifyEd25519, public(key)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("a stub of another change: %v", err)
	}
}

func TestStatements(t *testing.T) {
	c := statement(1, Seqs{{2, 5}, {9, 9}})
	read, err := DecodeCompacted(c.Encode())
	if err != nil || read.Actor() != newHistory(1).actor || !slices.Equal(read.Seqs, c.Seqs) {
		t.Fatalf("%+v is read as %+v: %v", c, read, err)
	}
	if err := read.Verify(VerifyEd25519); err != nil {
		t.Error(err)
	}
	more := read
	more.Seqs = more.Seqs.With(6, 6)
	other := read
	other.PublicKey = public(testKey(2))
	presuming := read
	presuming.Presumes = []Presumed{{ActorID{1}, 3}, {ActorID{2}, 1}}
	if bad := presuming.Verify(VerifyEd25519); bad == nil {
		t.Error("what a statement presumes is not signed")
	}
	presuming = SignCompacted(presuming, Ed25519Signer(testKey(1)))
	if read, err := DecodeCompacted(presuming.Encode()); err != nil || !slices.Equal(read.Presumes, presuming.Presumes) || read.Verify(VerifyEd25519) != nil {
		t.Errorf("%+v is read as %+v: %v", presuming, read, err)
	}
	presuming.Presumes[1].Actor = ActorID{1}
	if _, err := DecodeCompacted(presuming.Encode()); err == nil {
		t.Error("a statement that presumes one log twice is read")
	}
	for what, bad := range map[string]Compacted{"with more entries": more, "of another machine": other, "without a key": {Seqs: read.Seqs, Sig: read.Sig}} {
		if err := bad.Verify(VerifyEd25519); err == nil {
			t.Errorf("a statement %s counts", what)
		}
	}
	for what, bad := range map[string]Compacted{"nothing": statement(1, nil), "0": statement(1, Seqs{{0, 1}})} {
		if _, err := DecodeCompacted(bad.Encode()); err == nil {
			t.Errorf("a statement that covers %s is read", what)
		}
	}
}

// TestSupersededMakesNoDifference: what a state says is superseded may be dropped, in any
// order, and however changes are judged afterwards.
func TestSupersededMakesNoDifference(t *testing.T) {
	dropped := 0
	rapid.Check(t, func(rt *rapid.T) {
		entries := drawWorld(rt, t).entries
		if len(entries) == 0 {
			return
		}
		for range 20 { // results are rare in such a world
			e := rapid.SampledFrom(entries).Draw(rt, "of")
			entries = append(entries, sealed(t, Change{
				Object: e.change.Object, Incarnation: e.id, Author: "loop:scheduler", HLC: rapid.Uint64Range(1, 9).Draw(rt, "hlc"), Level: 1,
				Ops: []Op{result("schedule", Register{Attempt: rapid.Uint64Range(1, 4).Draw(rt, "attempt"), Phase: PhaseDone, Executor: machine(byte(rapid.IntRange(1, 2).Draw(rt, "executor")))})},
			}))
		}
		state := newState(t, rules())
		applyAll(state, entries...)
		var rest []entry
		for _, e := range entries {
			if !state.Superseded(e.change, e.id) {
				rest = append(rest, e)
			}
		}
		dropped += len(entries) - len(rest)
		rest = rapid.Permutation(rest).Draw(rt, "order")
		// Not a creation: the results of what never was are shown as refused, those that are left.
		judged := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.change.Incarnation.IsZero() })
		revoked := rapid.SampledFrom(judged).Draw(rt, "revoked").id
		later := rules()
		later.Permits = func(c Change) error {
			if c.ID() == revoked {
				return errors.New("a cut leaves it out")
			}
			return rules().Permits(c)
		}
		for _, cfg := range []Config{rules(), later} {
			all, some := newState(t, cfg), newState(t, cfg)
			applyAll(all, entries...)
			applyAll(some, rest...)
			if all.Hash() != some.Hash() {
				rt.Fatalf("with all:\n%s\n---\nwithout:\n%s", dump(all), dump(some))
			}
		}
	})
	if dropped == 0 {
		t.Error("nothing was ever superseded")
	}
}

func FuzzDecodeCompacted(f *testing.F) {
	f.Add(statement(1, Seqs{{1, 1}, {3, 9}}).Encode())
	f.Add(Compacted{PublicKey: public(testKey(1)), Seqs: Seqs{{1, 1}}, Presumes: []Presumed{{ActorID{1}, 3}}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCompacted(b)
		if err == nil && !bytes.Equal(c.Encode(), b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, c, c.Encode())
		}
	})
}
