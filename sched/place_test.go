package sched

import (
	"fmt"
	"testing"
)

const gi = 1 << 30

func machines() []Machine {
	return []Machine{
		{Name: "a", CPU: 2000, Memory: 4 * gi, UsedCPU: 1000, UsedMemory: 2 * gi, Standing: "ready", Labels: map[string]string{"disk": "ssd"}, Ports: map[uint16]string{80: "host port 80 is taken by pod/web"}},
		{Name: "b", CPU: 2000, Memory: 4 * gi, Standing: "ready", Labels: map[string]string{"disk": "hdd"}},
		{Name: "c", CPU: 8000, Memory: 16 * gi, Standing: "drained", Labels: map[string]string{"disk": "ssd"}},
	}
}

func TestPlace(t *testing.T) {
	tests := []struct {
		name string
		need Need
		want string
	}{
		{"emptiest wins", Need{ID: "p", CPU: 100, Memory: gi}, "b [{c drained}]"},
		{"stays although another is emptier", Need{ID: "p", CPU: 100, Memory: gi, Previous: "a"}, "a []"},
		{"label", Need{ID: "p", Require: map[string]string{"disk": "ssd"}}, "a [{b has disk=hdd (needs disk=ssd)} {c drained}]"},
		{"memory numbers", Need{ID: "p", Memory: 5 * gi}, " [{a memory: needs 5Gi, has 2Gi free of 4Gi} {b memory: needs 5Gi, has 4Gi free of 4Gi} {c drained}]"},
		{"cpu and memory", Need{ID: "p", CPU: 3000, Memory: 20 * gi, Previous: "b"}, " [{a cpu: needs 3, has 1 free of 2; memory: needs 20Gi, has 2Gi free of 4Gi} {b cpu: needs 3, has 2 free of 2; memory: needs 20Gi, has 4Gi free of 4Gi} {c drained}]"},
		{"host port", Need{ID: "p", Ports: []uint16{80, 443}}, "b [{a host port 80 is taken by pod/web} {c drained}]"},
		{"refused", Need{ID: "p", Refused: map[string]string{"b": "refused: full"}}, "a [{b refused: full} {c drained}]"},
	}
	for _, tt := range tests {
		p := Place(tt.need, machines())
		got := fmt.Sprintf("%s %v", p.Machine, p.Refusals)
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// Pods that reserve nothing count too; else one machine would get all of them.
func TestPodsThatReserveNothingAreSpread(t *testing.T) {
	list := []Machine{
		{Name: "a", CPU: 2000, Memory: 4 * gi, UsedCPU: 100, UsedMemory: 64 << 20, Pods: 1, Standing: "ready"},
		{Name: "b", CPU: 2000, Memory: 4 * gi, Standing: "ready"},
		{Name: "c", CPU: 2000, Memory: 4 * gi, Standing: "ready"},
	}
	for i := range 12 {
		p := Place(Need{ID: fmt.Sprint("pod", i)}, list)
		for m := range list {
			if list[m].Name == p.Machine {
				list[m].Pods++
			}
		}
	}
	for _, m := range list {
		if m.Pods < 3 || m.Pods > 5 {
			t.Errorf("%s has %d of 13 pods", m.Name, m.Pods)
		}
	}
}

// Siblings go to different machines, whether each is placed after the others or by peers
// that see some of the others or none; and one that moves goes where none is.
func TestSiblingsAreSpread(t *testing.T) {
	fresh := func() []Machine {
		return []Machine{
			{Name: "a", CPU: 2000, Memory: 4 * gi, UsedCPU: 300, Pods: 1, Standing: "ready"},
			{Name: "b", CPU: 2000, Memory: 4 * gi, Standing: "ready"},
			{Name: "c", CPU: 4000, Memory: 8 * gi, Standing: "ready"},
		}
	}
	for _, seen := range []func(slot int) bool{
		func(int) bool { return true }, func(int) bool { return false }, func(slot int) bool { return slot%3 != 0 }, func(slot int) bool { return slot%3 == 1 },
	} {
		for parent := range 20 {
			list, on := fresh(), map[string]int{}
			for slot := range 3 {
				p := Place(Need{ID: fmt.Sprint(parent, slot), Parent: fmt.Sprint("parent", parent), Slot: slot}, list)
				on[p.Machine]++
				for m := range list {
					if list[m].Name == p.Machine && seen(slot) {
						list[m].Siblings++
						list[m].Pods++
					}
				}
			}
			if on["a"] != 1 || on["b"] != 1 || on["c"] != 1 {
				t.Errorf("parent %d: %v", parent, on)
			}
		}
	}
	list := fresh()
	list[0].Standing, list[2].Siblings = "silent", 1
	if p := Place(Need{ID: "p", Parent: "x", Slot: 1}, list); p.Machine != "b" {
		t.Errorf("it moves to %s, where a sibling is", p.Machine)
	}
	list[1].UsedCPU = 1900
	if p := Place(Need{ID: "p", CPU: 500, Parent: "x", Slot: 1}, list); p.Machine != "c" {
		t.Errorf("%q: a sibling is no reason not to run", p.Machine)
	}
}

func TestExecutorMovesLittle(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	for i := range 500 {
		o := fmt.Sprint("object", i)
		before, after := Executor(o, all), Executor(o, all[:4])
		if before != "e" && before != after {
			t.Fatalf("%s moved from %s to %s although only e left", o, before, after)
		}
	}
}

func TestExecutorSpreads(t *testing.T) {
	count := map[string]int{}
	for i := range 3000 {
		count[Executor(fmt.Sprint(i), []string{"a", "b", "c"})]++
	}
	for m, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("%s executes %d of 3000 objects, expected about 1000", m, n)
		}
	}
}
