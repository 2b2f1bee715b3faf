package loops

import (
	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Pod returns the loops of a pod, one file each, in no particular order: the order
// comes from what they declare.
func Pod() []lifecycle.Loop {
	return []lifecycle.Loop{Scheduler(), Admission(), Image(), Address(), Networking(), Volume(), Objects(), Container(), Readiness()}
}

// PodTargets are the named points of a pod's lifecycle.
func PodTargets() []lifecycle.Target {
	return []lifecycle.Target{
		{Name: api.TargetStopped, Goal: true, Requires: []string{"address", "storage"},
			Doc: "The pod keeps its machine, its address and its volumes, and runs nothing."},
		{Name: api.TargetRunning, Goal: true, Requires: []string{"container"},
			Doc: "Every container that should run does."},
	}
}

// PodReservation is what a pod keeps reserved on its machine: the sum over its
// containers.
func PodReservation(f api.Fields) (sum lifecycle.Reservation) {
	for _, name := range f.Keys("spec.containers") {
		at := "spec.containers." + name + ".resources."
		sum = sum.Add(lifecycle.Reservation{CPU: f.CPU(at + "cpu"), Memory: f.Bytes(at + "memory")})
	}
	for _, p := range HostPorts(f) {
		sum = sum.Add(lifecycle.Reservation{Ports: map[uint16]int{p.Host: 1}})
	}
	return sum
}
