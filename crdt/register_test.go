package crdt

import (
	"reflect"
	"slices"
	"testing"
)

func TestRegisters(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	hi, lo := machine(1), machine(2)
	if a, b := precedence(c, hi), precedence(c, lo); slices.Compare(a[:], b[:]) < 0 {
		hi, lo = lo, hi
	}
	for _, law := range []struct {
		name       string
		won, lost  Register
		wonT, lstT uint64
	}{
		{"the higher attempt", Register{Attempt: 2, Executor: lo}, Register{Attempt: 1, Executor: hi}, 10, 99},
		{"then the higher hash(object, executor)", Register{Attempt: 1, Executor: hi}, Register{Attempt: 1, Executor: lo}, 10, 99},
		{"then the later stamp", Register{Attempt: 1, Executor: lo, Code: "end"}, Register{Attempt: 1, Executor: lo}, 11, 10},
	} {
		law.won.Phase, law.lost.Phase = PhaseDone, PhaseStarted
		s.add("won", law.wonT, "loop:scheduler", "c", "", result("schedule", law.won))
		s.add("lost", law.lstT, "loop:scheduler", "c", "", result("schedule", law.lost))
		o, _ := s.fold(rules()).Object(web)
		if got, _ := o.Register("schedule"); !reflect.DeepEqual(got, law.won) {
			t.Errorf("%s: got %+v, want %+v", law.name, got, law.won)
		}
		if id, _, _ := o.ResultChange("schedule"); id != s.named["won"].id {
			t.Errorf("%s: written by %s", law.name, s.name(id))
		}
	}
}

func TestResultsCountOnce(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice")
	twice := s.make(20, "loop:scheduler", s.named["c"].id, nil,
		result("schedule", Register{Attempt: 1, Phase: PhaseDone, Code: "b"}), result("schedule", Register{Attempt: 1, Phase: PhaseDone, Code: "a"}))
	older := s.make(15, "loop:scheduler", s.named["c"].id, nil, result("schedule", Register{Attempt: 1, Phase: PhaseStarted}))
	state := newState(t, rules())
	applyAll(state, s.named["c"])
	for _, step := range []struct {
		entry entry
		want  Outcome
	}{{twice, Took}, {older, Superseded}, {twice, Repeated}} {
		if a := state.Apply(step.entry.change, step.entry.id); a.Outcome != step.want {
			t.Errorf("got %v, want %v", a.Outcome, step.want)
		}
	}
	once := s.make(30, "loop:scheduler", s.named["c"].id, nil, result("schedule", Register{Attempt: 2, Phase: PhaseDone}))
	applyAll(state, once)
	before, _ := state.Object(web)
	if a := state.Apply(once.change, once.id); a.Outcome != Repeated {
		t.Errorf("got %v, want %v", a.Outcome, Repeated)
	}
	if after, _ := state.Object(web); after != before {
		t.Error("a repeated result made a new snapshot")
	}
}

func TestRefusedResultWinsAndIsAbsent(t *testing.T) {
	s := newScene(t)
	c := s.create("c", 10, "user:alice")
	s.add("r", 20, "loop:scheduler", "c", "", result("schedule", Register{Attempt: 1, Phase: PhaseDone}))
	bad := s.make(30, "loop:scheduler", c, nil, result("schedule", Register{Attempt: 2, Phase: PhaseDone})).change
	bad.Message = "forbidden"
	s.named["x"] = sealed(t, bad)
	state := s.fold(rules())
	o, _ := state.Object(web)
	if g, ok := o.Register("schedule"); ok {
		t.Errorf("a refused winner must leave the register absent; got %+v", g)
	}
	if got := o.NextAttempt("schedule"); got != 3 {
		t.Errorf("the next attempt is %d, want 3", got)
	}
	if refused := state.Refused(web); len(refused) != 1 || refused[0].Change != s.named["x"].id {
		t.Errorf("refused changes: %+v", refused)
	}
}

func TestResultsOfOthersAreRefused(t *testing.T) {
	done := Register{Attempt: 1, Phase: PhaseDone}
	for name, c := range map[string]struct {
		author string
		op     Op
	}{
		"another loop's step":   {"loop:address", result("schedule", done)},
		"an unknown step":       {"loop:address", result("dance", done)},
		"a person":              {"user:alice", result("schedule", done)},
		"another loop's output": {"loop:scheduler", result("schedule", Register{Attempt: 1, Phase: PhaseDone, Outputs: map[string]string{"status.address": "1"}})},
		"an output in the spec": {"loop:scheduler", result("schedule", Register{Attempt: 1, Phase: PhaseDone, Outputs: map[string]string{"spec.a": "1"}})},
		"an unknown phase":      {"loop:scheduler", result("schedule", Register{Attempt: 1, Phase: 9})},
		"a field in a result":   {"loop:scheduler", set("status.machine", "1")},
	} {
		s := newScene(t)
		s.create("c", 10, "user:alice")
		s.add("r", 20, c.author, "c", "", c.op)
		state := s.fold(rules())
		if o, _ := state.Object(web); len(o.Registers()) != 0 {
			t.Errorf("%s: took effect", name)
		}
		if refused := state.Refused(web); len(refused) != 1 {
			t.Errorf("%s: refused changes are %+v", name, refused)
		}
	}
}
