package identity

import (
	"testing"
	"time"
)

// A machine that was away when it was removed learns of it from the farewell alone, though it
// missed what came before.
func TestFarewell(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	if got := l.Farewell(w.id("m2")); got != nil {
		t.Errorf("a member is told that it was removed: %d records", len(got))
	}
	must(t, w.invite("m1", "m1", "late", time.Hour))
	_, err := l.RemoveMachine(w.key("m1"), w.clock(), Remove{Machine: w.id("m2"), Reason: "its disk died"})
	must(t, err)
	_, err = l.RenameMachine(w.key("m1"), w.clock(), w.id("m1"), "n")
	must(t, err)

	away := w.logs["m2"]
	for _, r := range l.Farewell(w.id("m2")) {
		_, err := away.Add(r)
		must(t, err)
	}
	m, ok := away.Snapshot().ByID(w.id("m2"))
	if !ok || !m.Removed || m.Reason != "its disk died" {
		t.Errorf("the machine knows of itself: %+v", m)
	}
	if away.Waiting() != 0 {
		t.Errorf("%d records wait for others", away.Waiting())
	}
	if m, _ := away.Snapshot().ByID(w.id("m1")); m.Name != "m1" {
		t.Errorf("it was told what came after: m1 is called %s", m.Name)
	}
	if got := l.Farewell(w.id("nobody")); got != nil {
		t.Errorf("a stranger is told something: %d records", len(got))
	}
}
