package peer

import (
	"fmt"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Kinds compiles the built-in kinds: their tables and their lifecycles.
func Kinds() (map[string]Kind, error) {
	pod, err := lifecycle.NewGraph("Pod", loops.PodTargets(), loops.Pod())
	if err != nil {
		return nil, fmt.Errorf("compile the lifecycle of pods: %w", err)
	}
	machine, err := lifecycle.NewGraph("Machine", loops.MachineTargets(), loops.Machine())
	if err != nil {
		return nil, fmt.Errorf("compile the lifecycle of machines: %w", err)
	}
	return map[string]Kind{
		"Pod":     kind("Pod", pod, loops.DerivePod, loops.PodReservation),
		"Machine": kind("Machine", machine, loops.DeriveMachine, nil),
	}, nil
}

func kind(name string, g *lifecycle.Graph, derive func(*lifecycle.Object, loops.Surroundings) api.Fields, reserve func(api.Fields) lifecycle.Reservation) Kind {
	return Kind{
		Graph:       g,
		Effective:   func(f api.Fields) api.Fields { return api.Effective(name, f) },
		Validate:    func(f api.Fields) []api.Problem { return api.Validate(name, f) },
		Goal:        func(f api.Fields) string { return f.String("lifecycle.target") },
		Derive:      derive,
		Reservation: reserve,
	}
}
