package peer

import (
	"fmt"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// definition is a built-in kind: its own lifecycle, and what the core computes for it.
type definition struct {
	name    string
	targets []lifecycle.Target
	loops   []lifecycle.Loop
	derive  func(*lifecycle.Object, loops.Surroundings) api.Fields
	reserve func(api.Fields) lifecycle.Reservation
	// validate is used in the place of the table alone, if it is set.
	validate func(api.Fields) []api.Problem
}

func definitions() []definition {
	return []definition{
		{name: "Allow", targets: loops.AllowTargets()},
		{name: "Kind", targets: loops.KindTargets(), loops: []lifecycle.Loop{loops.Kinds()}, validate: checkKind},
		{name: "Machine", targets: loops.MachineTargets(), loops: loops.Machine(), derive: loops.DeriveMachine},
		{name: "PinnedDeployment", targets: loops.PinnedTargets(), loops: []lifecycle.Loop{loops.Pinned()}, derive: loops.DerivePinned},
		{name: "Pod", targets: loops.PodTargets(), loops: loops.Pod(), derive: loops.DerivePod, reserve: loops.PodReservation},
		{name: "Pool", targets: loops.PoolTargets()},
		{name: "Service", targets: loops.ServiceTargets(), loops: loops.Service(), derive: loops.DeriveService},
		{name: "Site", targets: loops.SiteTargets(), loops: []lifecycle.Loop{loops.Site()}, derive: loops.DeriveSite},
		{name: "Step", targets: loops.HookTargets(), loops: []lifecycle.Loop{loops.Hooks()}},
		{name: "Target", targets: loops.HookTargets(), loops: []lifecycle.Loop{loops.TargetHooks()}},
	}
}

// Kinds compiles the built-in kinds: their tables and their lifecycles.
func Kinds() (map[string]Kind, error) {
	kinds := map[string]Kind{}
	for _, d := range definitions() {
		k, err := d.compile()
		if err != nil {
			return nil, err
		}
		kinds[d.name] = k
	}
	return kinds, nil
}

func (d definition) compile() (Kind, error) {
	g, err := lifecycle.NewGraph(d.name, d.targets, d.loops)
	if err != nil {
		return Kind{}, fmt.Errorf("compile the lifecycle of kind %s: %w", d.name, err)
	}
	validate := d.validate
	if validate == nil {
		validate = func(f api.Fields) []api.Problem { return api.Validate(d.name, f) }
	}
	return Kind{
		Graph: g,
		Compose: func(targets []lifecycle.Target, foreign []lifecycle.Loop) (*lifecycle.Graph, error) {
			return lifecycle.NewGraph(d.name, slices.Concat(d.targets, targets), append(d.loops[:len(d.loops):len(d.loops)], foreign...))
		},
		Effective:   func(f api.Fields) api.Fields { return api.Effective(d.name, f) },
		Validate:    validate,
		Goal:        goalIn(g),
		Derive:      d.derive,
		Reservation: d.reserve,
	}, nil
}

// goalIn reads where objects are to be. One whose target is not there any more, since it was
// taken away while a partition kept the object from being seen, is to be ready.
func goalIn(g *lifecycle.Graph) func(api.Fields) string {
	goals := g.Goals()
	return func(f api.Fields) string {
		if goal := f.String(jobTarget); slices.Contains(goals, goal) {
			return goal
		}
		return api.TargetReady
	}
}
