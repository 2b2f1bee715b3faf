package crdt

import "testing"

// What is kept of an earlier hash must not show in a later one: after each change the hash
// is that of a state which was never asked before.
func TestHashAfterEachChange(t *testing.T) {
	w := &writer{t: t, ref: web}
	c := w.create(1000, "user:alice", set("spec.image", `"a"`), set("spec.args", `"x"`))
	edit := w.make(2000, "user:bob", c.id, []ID{c.id}, set("spec.image", `"b"`))
	entries := []entry{
		c, edit,
		w.make(3, "loop:scheduler", c.id, nil, result("schedule", Register{Attempt: 1, Phase: PhaseStarted})),
		w.make(4, "loop:scheduler", c.id, nil, result("schedule", Register{Attempt: 1, Phase: PhaseDone})),
		w.make(5, "loop:scheduler", c.id, nil, result("schedule", Register{Attempt: 2, Phase: PhaseFailed})),
		w.make(3000, "user:alice", c.id, []ID{edit.id}, unset("spec.args")),
	}
	asked, seen := newState(t, rules()), map[ID]bool{}
	for i, e := range entries {
		applyAll(asked, e)
		fresh := newState(t, rules())
		applyAll(fresh, entries[:i+1]...)
		if got := asked.Hash(); got != fresh.Hash() || seen[got] {
			t.Errorf("after %d changes the hash is %v; of a fresh state it is %v", i+1, got, fresh.Hash())
		}
		seen[asked.Hash()] = true
	}
}
