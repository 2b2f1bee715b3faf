package sched

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// anyCluster draws machines, and a pod that may fit some of them.
func anyCluster(t *rapid.T) (Need, []Machine) {
	var machines []Machine
	for i := range rapid.IntRange(0, 6).Draw(t, "machines") {
		m := Machine{
			Name: fmt.Sprintf("m%d", i), Labels: map[string]string{},
			CPU: rapid.Int64Range(0, 8).Draw(t, "cpu") * 1000, Memory: rapid.Int64Range(0, 16).Draw(t, "memory") << 30,
			Standing: rapid.SampledFrom([]string{"ready", "ready", "ready", "is drained"}).Draw(t, "standing"),
		}
		m.UsedCPU, m.UsedMemory = rapid.Int64Range(0, m.CPU+1000).Draw(t, "used cpu"), rapid.Int64Range(0, m.Memory+1<<30).Draw(t, "used memory")
		if rapid.Bool().Draw(t, "ssd") {
			m.Labels["disk"] = "ssd"
		}
		machines = append(machines, m)
	}
	need := Need{ID: "pod", CPU: rapid.Int64Range(0, 4000).Draw(t, "needs cpu"), Memory: rapid.Int64Range(0, 4<<30).Draw(t, "needs memory"), Refused: map[string]string{}}
	if rapid.Bool().Draw(t, "needs ssd") {
		need.Require = map[string]string{"disk": "ssd"}
	}
	if len(machines) > 0 {
		need.Previous = rapid.SampledFrom(append(machines, Machine{})).Draw(t, "previous").Name
		if rapid.Bool().Draw(t, "refused") {
			need.Refused[rapid.SampledFrom(machines).Draw(t, "refuser").Name] = "refused: full"
		}
	}
	return need, machines
}

// fits says in other words than the package what a machine must have.
func fits(n Need, m Machine) bool {
	_, refused := n.Refused[m.Name]
	return m.Standing == "ready" && (n.Require == nil || m.Labels["disk"] == "ssd") && !refused &&
		m.UsedCPU+n.CPU <= max(m.CPU, m.UsedCPU) && m.UsedMemory+n.Memory <= max(m.Memory, m.UsedMemory)
}

func TestPlaceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need, machines := anyCluster(t)
		p := Place(need, machines)
		var chosen *Machine
		fitting := 0
		for i, m := range machines {
			if fits(need, m) {
				fitting++
			}
			if m.Name == p.Machine {
				chosen = &machines[i]
			}
		}
		switch {
		case (fitting > 0) != (p.Machine != ""):
			t.Fatalf("%d machines fit, and %q is chosen: %v", fitting, p.Machine, p.Refusals)
		case chosen != nil && !fits(need, *chosen):
			t.Fatalf("%s is chosen and does not fit", p.Machine)
		case p.Machine == "" && len(p.Refusals) != len(machines):
			t.Fatalf("none fits, and %d of %d machines are given a reason", len(p.Refusals), len(machines))
		}
		for _, m := range machines {
			if m.Name == need.Previous && fits(need, m) && p.Machine != m.Name {
				t.Fatalf("it was on %s, which still fits, and goes to %s", m.Name, p.Machine)
			}
		}
		for _, r := range p.Refusals {
			if r.Reason == "" || r.Machine == p.Machine {
				t.Fatalf("refusal %+v beside the choice %q", r, p.Machine)
			}
		}
		if again := Place(need, rapid.Permutation(machines).Draw(t, "order")); !reflect.DeepEqual(p, again) {
			t.Fatalf("%+v, and in another order %+v", p, again)
		}
	})
}

// The numbers of a refusal are such that a person can add them up.
func TestShort(t *testing.T) {
	for _, tt := range []struct {
		need, free, all int64
		want            string
	}{
		{64 << 20, 64 << 20, 1 << 30, ""},
		{64 << 20, 64<<20 - 1, 8252162048, "memory: needs 64Mi, has 63Mi free of 7869Mi"},
		{5 << 30, -1 << 30, 4 << 30, "memory: needs 5Gi, has 0 free of 4Gi"},
		{1, 0, 0, "memory: needs 1, has 0 free of 0"},
	} {
		if got := Short(0, tt.need, 0, tt.free, 0, tt.all); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
