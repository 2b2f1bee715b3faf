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
	service, err := lifecycle.NewGraph("Service", loops.ServiceTargets(), loops.Service())
	if err != nil {
		return nil, fmt.Errorf("compile the lifecycle of services: %w", err)
	}
	allow, err := lifecycle.NewGraph("Allow", loops.AllowTargets(), nil)
	if err != nil {
		return nil, fmt.Errorf("compile the lifecycle of Allows: %w", err)
	}
	pinned, err := lifecycle.NewGraph("PinnedDeployment", loops.PinnedTargets(), []lifecycle.Loop{loops.Pinned()})
	if err != nil {
		return nil, fmt.Errorf("compile the lifecycle of pinned deployments: %w", err)
	}
	return map[string]Kind{
		"PinnedDeployment": kind("PinnedDeployment", pinned, loops.DerivePinned, nil),
		"Service":          kind("Service", service, nil, nil),
		"Allow":            kind("Allow", allow, nil, nil),
		"Pod":              kind("Pod", pod, loops.DerivePod, loops.PodReservation),
		"Machine":          kind("Machine", machine, loops.DeriveMachine, nil),
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
