package e2e

import (
	"encoding/json"
	"testing"
)

// What a container uses is measured on its machine, and shown at any other.
func TestTopShowsWhatContainersUse(t *testing.T) {
	c := need(t)
	c.remove(t, "eater", "resting")
	const holds = 40 << 20
	c.apply(t, 1, "alice", set(
		podSpec{name: "eater", args: `[--allocate, "41943040", --listen, "[::]:8080"]`, cpu: "500m", memory: "96Mi"},
		podSpec{name: "resting", args: serve, memory: "32Mi"},
	))
	eater := c.awaitReady(t, 2, "eater")
	c.awaitReady(t, 2, "resting")
	var got struct {
		Containers []struct {
			Key                     struct{ Name string }
			Container, Machine      string
			CPUMilli, CPULimitMilli json.Number
			Memory, MemoryLimit     json.Number
		}
	}
	// Asked where the pod is not.
	out := c.must(t, other(eater.status("machine")), "top", "--for", "200ms", "-o", "json")
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	seen := 0
	for _, u := range got.Containers {
		memory, _ := u.Memory.Int64()
		switch u.Key.Name {
		case "eater":
			seen++
			if memory < holds || u.MemoryLimit != "100663296" || u.CPULimitMilli != "500" || u.Machine != eater.status("machine") || u.Container != "app" {
				t.Errorf("the pod that holds %d bytes on %s: %+v", holds, eater.status("machine"), u)
			}
		case "resting":
			seen++
			if memory <= 0 || memory >= holds {
				t.Errorf("the pod that holds nothing: %+v", u)
			}
		}
	}
	if seen != 2 {
		t.Errorf("top shows %s", out)
	}
	says(t, c.must(t, 3, "top", "--sort", "memory"), "pod/eater")
}
