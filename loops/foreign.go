package loops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Foreign calls the loops that are attached to this peer. A [Host] that can do so has
// the method Foreign.
type Foreign interface {
	// Call has the loop do a step, or take it back, and returns its outputs. It ends
	// with ctx. A *lifecycle.Error with code LoopDetached says that the loop is not
	// attached.
	Call(ctx context.Context, c ForeignCall) (lifecycle.Outputs, error)
}

// ForeignCall is one call of a foreign loop.
type ForeignCall struct {
	Kind, Loop, Step string
	Undo             bool
	Inputs           lifecycle.Inputs
}

// Hook is a foreign loop's step as its Step object declares it.
type Hook struct {
	Kind   string
	Loop   string
	Claims []string
	// Entries is the loop's entry budget as this step wants it; zero: the usual one.
	Entries int
	Step    lifecycle.Step
	// NextRun: objects that were there before run the step only when their spec changes.
	NextRun bool
}

// HookOf reads a Step object, defaults filled in.
func HookOf(name string, f api.Fields) (Hook, error) {
	decoded, err := api.DecodeStep(f)
	if err != nil {
		return Hook{}, err
	}
	s := decoded.Spec
	if s.Step == "" {
		s.Step = name
	}
	if s.Where == "" {
		s.Where = api.WhereExecutor
		if s.Kind == "Pod" || s.Kind == "Machine" {
			s.Where = api.WhereMachine
		}
	}
	return hookOf(s), nil
}

// callForeign calls the loop and takes nothing from it but what it declared.
func callForeign(ctx context.Context, h Host, c ForeignCall, outputs []string, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	host, ok := h.(interface{ Foreign() Foreign })
	if !ok {
		return nil, &lifecycle.Error{Code: api.LoopDetached, Wait: true, Message: Detached(c.Loop, in.Machine)}
	}
	c.Inputs = in
	out, ended := host.Foreign().Call(ctx, c)
	if ended != nil && !waiting(ended) {
		return nil, ended
	}
	for _, path := range out.Paths() {
		if !slices.ContainsFunc(outputs, func(p string) bool { return api.Covers(p, path) }) {
			return nil, fmt.Errorf("loop %s returned %s, which step %s does not declare among its outputs", c.Loop, path, c.Step)
		}
		if _, err := api.Canonical(out[path]); err != nil {
			return nil, fmt.Errorf("loop %s returned a value of %s that is no JSON: %w", c.Loop, path, err)
		}
	}
	return out, ended
}

// waiting reports whether a step's error is none: it said what it had to say.
func waiting(err error) bool {
	var owns *lifecycle.Owns
	var pending *lifecycle.Pending
	if errors.As(err, &owns) && owns.Err != nil {
		return errors.As(owns.Err, &pending)
	}
	return owns != nil || errors.As(err, &pending)
}

// Detached says that a loop's program is not there.
func Detached(loop, machine string) string {
	return fmt.Sprintf("foreign loop %s is not attached on %s; start its program there", loop, machine)
}

// Registry is the part of the core's view that knows which Steps and Kinds fit.
type Registry interface {
	// Misfit says why a Step is not part of its lifecycle, or why a Kind is not what it
	// says; "" if it is.
	Misfit(key api.Key) string
}

// Hooks returns the loop of Steps.
func Hooks() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopSteps,
		Kind: "Step",
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

// HookTargets are the named points of a Step's lifecycle.
func HookTargets() []lifecycle.Target {
	return []lifecycle.Target{{Name: api.TargetReady, Goal: true, Requires: []string{"register"}, Doc: "The step is part of the lifecycle."}}
}

// TargetOf reads a Target object, defaults filled in.
func TargetOf(name string, f api.Fields) (kind string, t lifecycle.Target, err error) {
	decoded, err := api.DecodeTarget(f)
	s := decoded.Spec
	return s.Kind, lifecycle.Target{Name: name, Requires: s.Requires, After: s.After, Doc: s.Doc, Goal: s.Goal}, err
}

// TargetHooks returns the loop of Targets.
func TargetHooks() lifecycle.Loop {
	l := Hooks()
	l.Kind = "Target"
	return l
}

func register(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	if r, ok := v.(Registry); ok {
		if why := r.Misfit(in.Key); why != "" {
			return nil, &lifecycle.Error{Code: api.LoopRefused, Message: why, Wait: true, Outputs: lifecycle.Outputs{"status.fits": "false"}}
		}
	}
	return lifecycle.Outputs{"status.fits": "true"}, nil
}
