package loops

import (
	"context"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Own returns the lifecycle that a Kind object, defaults filled in, gives the objects of
// its kind. Every step of it is done by a foreign loop, on the object's executor.
func Own(kind string, f api.Fields) (targets []lifecycle.Target, list []lifecycle.Loop) {
	steps := f.Keys("spec.steps")
	full := func(names []string) []string { return fullNames(f, names) }
	var all []string
	for _, name := range steps {
		at := api.Child("spec.steps", name)
		s := api.HookedSpec{
			Kind: kind, Loop: f.String(at + ".loop"), Step: name, Where: api.WhereExecutor,
			After: full(f.Strings(at + ".after")), Requires: full(f.Strings(at + ".requires")),
			Reads: f.Strings(at + ".reads"), Consults: f.Strings(at + ".consults"), Outputs: f.Strings(at + ".outputs"),
			Claims: f.Strings(at + ".claims"), Children: f.String(at + ".children"),
			Timeout: f.Duration(at + ".timeout"), Every: f.Duration(at + ".every"), Undo: f.Bool(at + ".undo"),
			Entries: f.Int(at + ".entries"),
		}
		h := hookOf(s)
		all = append(all, h.Step.Name)
		list = AddStep(list, h)
	}
	for _, name := range f.Keys("spec.targets") {
		at := api.Child("spec.targets", name)
		targets = append(targets, lifecycle.Target{
			Name: name, Requires: full(f.Strings(at + ".requires")), Doc: f.String(at + ".doc"), Goal: !f.Has(at+".goal") || f.Bool(at+".goal"),
		})
	}
	if !slices.ContainsFunc(targets, func(t lifecycle.Target) bool { return t.Name == api.TargetReady }) {
		targets = append(targets, lifecycle.Target{Name: api.TargetReady, Goal: true, Requires: all, Doc: "Every step of the Kind is done."})
	}
	return targets, list
}

// fullNames puts the loop before the steps of the Kind itself, which calls them by their
// names alone.
func fullNames(f api.Fields, names []string) []string {
	for i, name := range names {
		if at := api.Child("spec.steps", name); !strings.Contains(name, ":") && f.Has(at+".loop") {
			names[i] = api.ForeignStep(f.String(at+".loop"), name)
		}
	}
	return names
}

// AddStep gives a loop one more step; a loop of that name is made if there is none.
func AddStep(list []lifecycle.Loop, h Hook) []lifecycle.Loop {
	i := slices.IndexFunc(list, func(l lifecycle.Loop) bool { return l.Name == h.Loop })
	if i < 0 {
		return append(list, lifecycle.Loop{Name: h.Loop, Kind: h.Kind, Claims: h.Claims, Entries: h.Entries, Steps: []lifecycle.Step{h.Step}})
	}
	l := &list[i]
	l.Entries = max(l.Entries, h.Entries)
	l.Steps = append(slices.Clone(l.Steps), h.Step)
	l.Claims = append(slices.Clone(l.Claims), h.Claims...)
	return list
}

// Unfit is the lifecycle of a kind whose Kind does not hold together: its objects are
// kept and shown, and wait until somebody mends the Kind.
func Unfit(kind, why string) ([]lifecycle.Target, []lifecycle.Loop) {
	name := api.ForeignStep(api.LoopKinds, "fits")
	refuse := func(lifecycle.View, lifecycle.Inputs) (lifecycle.Outputs, error) {
		return nil, &lifecycle.Error{Code: api.LoopRefused, Wait: true, Message: api.KindObject(kind).String() + " does not hold together: " + why}
	}
	return []lifecycle.Target{{Name: api.TargetReady, Goal: true, Requires: []string{name}}},
		[]lifecycle.Loop{{Name: api.LoopKinds, Kind: kind, Steps: []lifecycle.Step{{Name: name, Timeout: 5 * time.Second, Consults: []string{"Kind"}, Decide: refuse}}}}
}

// Kinds returns the loop of Kinds.
func Kinds() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopKinds,
		Kind: "Kind",
		Steps: []lifecycle.Step{{
			Name:    "register",
			Where:   lifecycle.OnExecutor,
			Reads:   []string{"spec"},
			Outputs: []string{"status.fits"},
			Timeout: 5 * time.Second,
			Decide:  register,
		}},
	}
}

// KindTargets are the named points of a Kind's lifecycle.
func KindTargets() []lifecycle.Target {
	return []lifecycle.Target{{Name: api.TargetReady, Goal: true, Requires: []string{"register"}, Doc: "Objects of the kind can be made."}}
}

// hookOf makes a step of the engine of what a Step or a Kind declares.
func hookOf(s api.HookedSpec) Hook {
	call := ForeignCall{Kind: s.Kind, Loop: s.Loop, Step: s.Step}
	step := lifecycle.Step{
		Name: api.ForeignStep(s.Loop, s.Step), After: s.After, Before: s.Before, Requires: s.Requires, RequiredBy: s.RequiredBy,
		Wants: s.Wants, WantedBy: s.WantedBy,
		Reads: s.Reads, Consults: s.Consults, Outputs: s.Outputs, Timeout: s.Timeout, Every: s.Every, Where: lifecycle.OnMachine,
		Children: s.Children, Authors: s.Authors,
		Do: act(func(ctx context.Context, h Host, in lifecycle.Inputs) (lifecycle.Outputs, error) {
			out, err := callForeign(ctx, h, call, s.Outputs, in)
			return out, named(err, s, in)
		}),
	}
	if s.Children != "" {
		step.Reads = append(slices.Clone(s.Reads), api.Join("children", s.Loop))
	}
	if s.Where == api.WhereExecutor {
		step.Where = lifecycle.OnExecutor
	}
	if s.Undo {
		back := call
		back.Undo = true
		step.Undo = undo(func(ctx context.Context, h Host, in lifecycle.Inputs) error {
			_, err := callForeign(ctx, h, back, nil, in)
			return err
		})
	}
	return Hook{Kind: s.Kind, Loop: s.Loop, Claims: s.Claims, Entries: int(s.Entries), Step: step, NextRun: s.Existing == api.ExistingNextRun}
}
