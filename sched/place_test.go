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
