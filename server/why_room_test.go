package server

import (
	"testing"

	"starling.dev/starling/api"
)

// What why advises follows from what the machines say.
func TestMakeRoom(t *testing.T) {
	for _, tt := range []struct {
		refused map[string]string
		want    string
	}{
		{nil, "Add a machine."},
		{map[string]string{"m1": "memory: needs 64Gi, has 2Gi free of 4Gi"}, "Ask for less, free some capacity, or add a machine."},
		{map[string]string{"m1": "has no label disk (needs disk=ssd)", "m2": "is drained"},
			"Bring m2 back with `peer machine resume m2`, label another machine with `peer machine label`, or add a machine."},
		{map[string]string{"m1": "is silent", "m2": "is silent"}, "Look after m1 and m2 or add a machine."},
		{map[string]string{"m1": "host port 80 is taken by pod/web"}, "Choose another host port or add a machine."},
		{map[string]string{"m1": "port 80 is in use on the host by nginx (pid 7)"}, "Stop the program that has the port, choose another host port, or add a machine."},
	} {
		status := api.Fields{}
		for machine, reason := range tt.refused {
			status[api.Join("status", "refused", machine)] = api.Str(reason)
		}
		if got := makeRoom(status); got != tt.want {
			t.Errorf("%v:\n got %s\nwant %s", tt.refused, got, tt.want)
		}
	}
}
