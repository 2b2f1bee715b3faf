package crdt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden encodings")

// typical is a person's edit of one field, with everything that one carries in a
// running cluster.
func typical() Change {
	return Change{
		Object:      web,
		Incarnation: idOf("incarnation"),
		Parents:     []ID{idOf("parent")},
		Auth:        []ID{idOf("auth")},
		Author:      "user:alice",
		HLC:         1_790_000_000_000 << 16,
		Nonce:       0xfedcba9876543210,
		Level:       1,
		Ops:         []Op{set("spec.containers.app.image", `"localhost/hello:2"`)},
	}
}

func typicalResult() Change {
	return Change{
		Object: web, Incarnation: idOf("incarnation"), Auth: []ID{idOf("auth")},
		Author: "loop:schedule", HLC: 1_790_000_000_001 << 16, Nonce: 7, Level: 1,
		Ops: []Op{result("schedule", Register{
			Attempt: 3, Phase: PhaseDone, Reads: idOf("reads"), Executor: machine(9),
			Queued: 1_790_000_000_000, Ready: 1_790_000_000_001, Started: 1_790_000_000_001, Finished: 1_789_999_999_999,
			Outputs: map[string]string{"status.machine": `"m1"`, "status.score": "17"},
		})},
	}
}

func everything() Change {
	c := typical()
	c.Set = [16]byte{1, 2, 3}
	c.Message = "größer"
	c.Parents = []ID{{1}, {2}}
	c.Ops = []Op{
		{Kind: OpDelete}, unset("spec.args"), set("lifecycle.target", `"stopped"`),
		result("container", Register{
			Attempt: 1, Phase: PhaseFailed, Queued: 5, Ready: 4, RetryAt: 9000,
			Code: "CrashLoop", Message: "it exited with 1", Failures: 4,
		}),
		{Kind: 200, Value: "\xff what a later level does"},
	}
	c.extension = "\x01later"
	return c
}

func typicalBatch(changes ...Change) Batch {
	priv := testKey(1)
	b := Batch{Actor: NewActorID(public(priv), 77), First: 1000, Prev: idOf("before")}
	for _, c := range changes {
		b.Changes = append(b.Changes, c.Encode())
	}
	return SignBatch(b, Ed25519Signer(priv))
}

func firstBatch(changes ...Change) Batch {
	priv := testKey(1)
	b := typicalBatch(changes...)
	b.First, b.Prev = 1, ID{}
	b.Birth = &Birth{PublicKey: public(priv), Nonce: 77, Before: ActorID{4}, BeforeHead: Head{12, idOf("old")}}
	return SignBatch(b, Ed25519Signer(priv))
}

// Stored data outlives every version of the program: an encoding must never drift.
func TestGoldenEncodings(t *testing.T) {
	for name, b := range map[string][]byte{
		"change":       typical().Encode(),
		"result":       typicalResult().Encode(),
		"everything":   everything().Encode(),
		"batch":        typicalBatch(typical(), typicalResult()).Encode(),
		"first_batch":  firstBatch(typical()).Encode(),
		"birth":        firstBatch(typical()).Birth.Encode(),
		"change_id":    idBytes(typical().ID()),
		"entry_hash":   idBytes(typicalBatch(typical()).LastHash()),
		"first_hash":   idBytes(firstBatch(typical()).LastHash()),
		"revived_id":   idBytes(revivedID(idOf("deleted"))),
		"head_digest":  idBytes(headHash(ActorID{1}, Head{2, ID{3}})),
		"object_state": idBytes(goldenState(t).Hash()),
	} {
		golden(t, name, b)
	}
}

func idBytes(id ID) []byte { return id[:] }

func goldenState(t *testing.T) *State {
	s := newState(t, rules())
	w := &writer{t: t, ref: web}
	c := w.create(1000, "user:alice", set("spec.image", `"a"`))
	e := w.make(2000, "user:bob", c.id, []ID{c.id}, unset("spec.image"))
	applyAll(s, c, e, w.make(3, "loop:scheduler", c.id, nil, result("schedule", Register{Attempt: 1, Phase: PhaseDone})))
	return s
}

func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".hex")
	if *rewrite {
		if err := os.WriteFile(path, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
		t.Errorf("%s is now\n%s\nwas\n%s", name, got, want)
	}
}

func TestOneFieldChangeIsSmall(t *testing.T) {
	stored := len(typicalBatch(typical()).Encode())
	t.Logf("a one-field change in a batch of its own: %d bytes stored; a result: %d",
		stored, len(typicalBatch(typicalResult()).Encode()))
	if stored > 400 {
		t.Errorf("a one-field change takes %d bytes stored; the limit is 400", stored)
	}
}

func TestEncodingsRoundTrip(t *testing.T) {
	for _, c := range []Change{typical(), typicalResult(), everything(), {Author: "user:a"}} {
		got, err := DecodeChange(c.Encode())
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("change came back as %+v, %v; was %+v", got, err, c)
		}
		if id := ChangeID(c.At.Actor, c.Encode()); id != c.ID() {
			t.Errorf("ChangeID of the bytes is %v, of the change %v", id, c.ID())
		}
	}
	for _, b := range []Batch{typicalBatch(typical(), typicalResult()), firstBatch(typical())} {
		got, err := DecodeBatch(b.Encode())
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("batch came back as %+v, %v; was %+v", got, err, b)
		}
	}
}

// Who copies another's words into its own log says them itself.
func TestChangesOfTwoLogsAreTwo(t *testing.T) {
	c := typical()
	copied := c
	copied.At.Actor[0]++
	if c.ID() == copied.ID() || ChangeID(copied.At.Actor, c.Encode()) != copied.ID() {
		t.Error("the actor is no part of the ID")
	}
}

// A flipped bit either is refused or gives another value: no two encodings of one.
func TestDecodersAreStrict(t *testing.T) {
	valid := everything().Encode()
	for i := range valid {
		for bit := range 8 {
			b := bytes.Clone(valid)
			b[i] ^= 1 << bit
			c, err := DecodeChange(b)
			if err == nil && !bytes.Equal(c.Encode(), b) {
				t.Fatalf("byte %d bit %d: decodes, but encodes differently", i, bit)
			}
		}
	}
}

func TestMalformedInputIsNamed(t *testing.T) {
	over := typical()
	over.Message = strings.Repeat("x", MaxMessage+1)
	unsorted := typical()
	unsorted.Parents = []ID{{2}, {1}}
	twice := typical()
	twice.Auth = []ID{{2}, {2}}
	latin := typical()
	latin.Author = "user:\xe9"
	late := typical()
	late.HLC = maxHLC + 1
	noRegister := typical()
	noRegister.Ops = []Op{{Kind: OpResult, Path: "container"}}
	future := typical().Encode()
	future[0] = 2
	for name, b := range map[string][]byte{
		"empty": nil, "cut": typical().Encode()[:100], "long message": over.Encode(), "unsorted parents": unsorted.Encode(),
		"repeated heads": twice.Encode(), "bad text": latin.Encode(), "hlc": late.Encode(), "no register": noRegister.Encode(),
		"version": future, "too large": make([]byte, MaxChange+1),
	} {
		if _, err := DecodeChange(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
	}
	if err := over.Validate(); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "message") {
		t.Errorf("Validate says %v; it should name the message", err)
	}
	for name, b := range map[string]Batch{
		"no entries": {First: 2}, "first 0": {Changes: [][]byte{{1}}},
		"no birth": {First: 1, Changes: [][]byte{{1}}}, "short key": {First: 1, Birth: &Birth{PublicKey: []byte{1}}, Changes: [][]byte{{1}}},
	} {
		if _, err := DecodeBatch(b.Encode()); !errors.Is(err, ErrMalformed) {
			t.Errorf("batch with %s: got %v, want ErrMalformed", name, err)
		}
	}
}

func TestNumbersAreCanonical(t *testing.T) {
	for _, s := range []string{"", "\x80", "\x80\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "\x05"} {
		r := &reader{rest: s}
		if v := r.uvarint(4, "number"); r.err == nil {
			t.Errorf("%x was read as %d", s, v)
		}
	}
}

func TestRegistersRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := func(name string) int64 { return rapid.Int64Range(0, maxTime).Draw(rt, name) }
		g := &Register{
			Attempt: rapid.Uint64Range(0, maxAttempt).Draw(rt, "attempt"), Phase: Phase(rapid.Byte().Draw(rt, "phase")),
			Queued: at("queued"), Ready: at("ready"), Started: at("started"), Finished: at("finished"), RetryAt: at("retry"),
			Code: rapid.StringN(0, 40, MaxName).Draw(rt, "code"), Failures: rapid.Uint32().Draw(rt, "failures"),
			Outputs: rapid.MapOfN(rapid.StringN(1, 10, 40), rapid.StringN(0, 10, 40), 1, 5).Draw(rt, "outputs"),
		}
		r := &reader{rest: g.encoded()}
		got := r.register()
		if err := r.end("register"); err != nil || !reflect.DeepEqual(got, g) {
			rt.Fatalf("came back as %+v, %v; was %+v", got, err, g)
		}
	})
}
