package crdt

import (
	"bytes"
	"errors"
	"testing"
)

// sampleCheckpoint is a small one, with an actor, an object and a change that waits.
func sampleCheckpoint(t testing.TB) ([]byte, *Log, *State) {
	t.Helper()
	h := newHistory(1, "a", "b")
	l, s := newLog(t, h), newState(t, rules())
	accept(t, l, h.batch(1, 2))
	w := &writer{t: t, ref: web}
	first := w.create(10, "user:alice", set("spec.image", `"a"`))
	edit := w.make(20, "user:bob", first.id, []ID{first.id}, set("spec.image", `"b"`))
	late := w.make(30, "user:bob", first.id, []ID{idOf("missing")}, set("spec.image", `"c"`))
	applyAll(s, first, edit, late)
	var file bytes.Buffer
	if err := Capture(l, s, []byte("extra")).Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), l, s
}

func TestCheckpoint(t *testing.T) {
	file, l, s := sampleCheckpoint(t)
	log, state := newLog(t, nil), newState(t, rules())
	if extra, err := ReadCheckpoint(bytes.NewReader(file), log, state); err != nil || string(extra) != "extra" {
		t.Fatalf("%q, %v", extra, err)
	}
	if log.Digest() != l.Digest() || state.Hash() != s.Hash() || dump(state) != dump(s) {
		t.Errorf("read back it is\n%s\n--- and was ---\n%s", dump(state), dump(s))
	}
}

// Of a checkpoint with one wrong bit, or cut short anywhere, nothing is used.
func TestDamagedCheckpoint(t *testing.T) {
	file, _, _ := sampleCheckpoint(t)
	try := func(what string, data []byte) {
		if _, err := ReadCheckpoint(bytes.NewReader(data), newLog(t, nil), newState(t, rules())); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1 << (i % 8)
		try("a wrong bit", damaged)
		try("cut short", file[:i])
	}
	raised := rules()
	raised.Level = 2
	if _, err := ReadCheckpoint(bytes.NewReader(file), newLog(t, nil), newState(t, raised)); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("of another level: %v", err)
	}
}
