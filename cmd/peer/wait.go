package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

func waitCommand(c *cli) *cobra.Command {
	var condition string
	timeout := time.Minute
	cmd := &cobra.Command{
		Use: "wait OBJ... --for STATE", Short: "Wait until objects are ready, or gone",
		Long: "Wait until objects are converged, deleted, at a target (ready, running, stopped, drained), or past a step of\n" +
			"their lifecycle. An object that does not exist yet is waited for. When the time is over, tell why, and end\n" +
			"with the exit code 124.",
		Example:           "  peer wait web --for ready --timeout 2m",
		Args:              objectArgs(1, -1),
		ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			for _, a := range c.withKind(ctx, args) {
				key, err := c.oneObject(cmd.Context(), []string{a})
				if err != nil {
					return err
				}
				if err := c.waitFor(ctx, key, condition); err != nil {
					return c.waited(cmd.Context(), ctx, key, condition, timeout, err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&condition, "for", "ready", "converged, deleted, a target, or a step")
	cmd.Flags().Var(duration{&timeout}, "timeout", "how long to wait at most")
	return cmd
}

// waitFor watches one object until the condition holds.
func (c *cli) waitFor(ctx context.Context, key *apiv1.Key, condition string) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	states, err := p.Watch(ctx, &apiv1.WatchRequest{Kind: key.GetKind(), Namespace: key.GetNamespace(), Name: key.GetName()})
	if err != nil {
		return err
	}
	defer states.Close()
	for existed := false; states.Receive(); {
		state := states.Msg()
		met, err := holds(state, condition)
		switch {
		case err != nil || met:
			return err
		case state.GetGone() && existed:
			return fmt.Errorf("%s was deleted while it was waited for", client.KeyOf(key))
		}
		existed = existed || !state.GetGone()
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done() // the peer, which is told the deadline, has come to it first
		return ctx.Err()
	}
	if err := ended(states.Err()); err != nil {
		return err
	}
	return errors.New("the peer ended while it was asked; wait again")
}

// deadlineSlack is how far two clocks may be apart in telling that the time is over.
const deadlineSlack = 250 * time.Millisecond

// holds judges a condition. A target that an object is at while it is on its way to
// another does not count, nor does a step whose result is out of date.
func holds(state *apiv1.ObjectState, condition string) (bool, error) {
	converged := state.GetObject().GetVerdict() == "converged"
	if state.GetObject().GetPhase() == "machine silent" {
		return false, nil // nothing that is recorded about it is certain
	}
	switch condition {
	case "deleted":
		return state.GetGone(), nil
	case "converged":
		return converged && !state.GetGone(), nil
	case api.TargetStopped, api.TargetDrained:
		return converged && state.GetGoal() == condition, nil
	}
	if state.GetGone() {
		return false, nil
	}
	var steps []string
	for _, st := range state.GetSteps() {
		if st.GetStep() == condition {
			return st.GetState() == "done" && !st.GetDirty(), nil
		}
		steps = append(steps, st.GetStep())
	}
	return false, fmt.Errorf("--for %s: %s has no such target or step; there are converged, deleted, %s",
		condition, client.KeyOf(state.GetObject().GetKey()), strings.Join(steps, ", "))
}

// waited turns the end of the time into an explanation and an exit code.
func (c *cli) waited(parent, ctx context.Context, key *apiv1.Key, condition string, timeout time.Duration, err error) error {
	if ctx.Err() == nil || parent.Err() != nil {
		return err
	}
	late := &exitStatus{code: exitTimedOut, err: fmt.Errorf("%s is not %s after %s", client.KeyOf(key), condition, api.FormatDuration(timeout))}
	ask, cancel := context.WithTimeout(parent, 5*time.Second)
	defer cancel()
	why, err := c.why(ask, key)
	if err != nil {
		late.err = fmt.Errorf("%w: %w", late.err, client.AsError(err))
		return late
	}
	c.note(c.style().Why(why))
	return late
}
