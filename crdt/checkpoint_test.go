package crdt

import (
	"bytes"
	"errors"
	"io"
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
	if err := Capture(l, s, []byte("extra"), Ref.note).Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), l, s
}

// note is what the tests say of an object.
func (r Ref) note() string { return "about " + r.Name }

func nameless(Ref) string { return "" }

func ignored(Ref, string) {}

// memory is a file that counts how often it was closed.
type memory struct {
	*bytes.Reader
	closed int
}

func open(content []byte) *memory { return &memory{Reader: bytes.NewReader(content)} }

func (m *memory) Close() error {
	m.closed++
	return nil
}

func TestCheckpoint(t *testing.T) {
	file, l, s := sampleCheckpoint(t)
	log, state := newLog(t, nil), newState(t, rules())
	notes := map[Ref]string{}
	extra, err := ReadCheckpoint(open(file), log, state, func(r Ref, note string) { notes[r] = note })
	if err != nil || string(extra) != "extra" || len(notes) != 1 || notes[web] != web.note() {
		t.Fatalf("%q, %v, %v", extra, notes, err)
	}
	if log.Digest() != l.Digest() || state.Hash() != s.Hash() || dump(state) != dump(s) {
		t.Errorf("read back it is\n%s\n--- and was ---\n%s", dump(state), dump(s))
	}
}

// Of a checkpoint with one wrong bit, or cut short anywhere, nothing is used.
func TestDamagedCheckpoint(t *testing.T) {
	file, _, _ := sampleCheckpoint(t)
	try := func(what string, data []byte) {
		if _, err := ReadCheckpoint(open(data), newLog(t, nil), newState(t, rules()), ignored); !errors.Is(err, ErrCheckpoint) {
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
	if _, err := ReadCheckpoint(open(file), newLog(t, nil), newState(t, raised), ignored); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("of another level: %v", err)
	}
}

// A state whose objects at rest are in a file is what it is without one: whatever changed
// since the checkpoint was taken, and whichever checkpoint an object comes from.
func TestSettle(t *testing.T) {
	s, same := newState(t, packing(rules())), newState(t, rules())
	apply := func(e entry) {
		applyAll(s, e)
		applyAll(same, e)
	}
	var pods []entry
	for i := range 20 {
		pods = append(pods, podChange(t, i))
		apply(pods[i])
	}
	var files []*memory
	for round := range 3 {
		before := s.InMemory()
		c := Capture(newLog(t, nil), s, nil, nameless)
		var written bytes.Buffer
		if err := c.Write(&written); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			apply(podResult(t, pods[(7*round+i)%20], uint64(round+1)))
		}
		files = append(files, open(written.Bytes()))
		if err := s.Settle(c, files[round]); err != nil {
			t.Fatal(err)
		}
		if s.InMemory() >= before || s.OnDisk() < written.Len()/2 {
			t.Errorf("round %d: %d of %d bytes are in memory, %d on the disk", round, s.InMemory(), before, s.OnDisk())
		}
		if dump(s) != dump(same) || s.Hash() != same.Hash() {
			t.Fatalf("round %d: it is\n%s\n--- and not ---\n%s", round, dump(s), dump(same))
		}
	}
	for i, f := range files {
		if want := min(1, len(files)-1-i); f.closed != want {
			t.Errorf("file %d was closed %d times", i, f.closed)
		}
	}
}

// An object that is no longer what was written is not taken for anything.
func TestUnreadable(t *testing.T) {
	pod := podChange(t, 1)
	first, s := newState(t, rules()), newState(t, rules())
	applyAll(first, pod)
	var written bytes.Buffer
	if err := Capture(newLog(t, nil), first, nil, nameless).Write(&written); err != nil {
		t.Fatal(err)
	}
	content := written.Bytes()
	if _, err := ReadCheckpoint(open(content), newLog(t, nil), s, ignored); err != nil {
		t.Fatal(err)
	}
	content[s.slots[pod.change.Object].stored.at+100] ^= 1
	var lost *Unreadable
	if err := Capture(newLog(t, nil), s, nil, nameless).Write(io.Discard); !errors.As(err, &lost) {
		t.Errorf("written again: %v", err)
	}
	defer func() {
		if lost, ok := recover().(*Unreadable); !ok || lost.Object != pod.change.Object {
			t.Errorf("read: %v", lost)
		}
	}()
	o, _ := s.Object(pod.change.Object)
	t.Errorf("it reads as %v", o)
}
