package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// start runs an action in a goroutine of its own; its end is an event.
func (d *driver) start(ctx context.Context, a Action) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	d.cancels[a.ID] = cancel
	d.actions.Go(func() {
		defer cancel()
		done := ActionDone{Action: a.ID}
		done.Outputs, done.Err = d.act(ctx, a)
		if done.Err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			done.Err = overdue(a, done.Err)
		}
		d.l.Post(ctx, done)
	})
}

// overdue says that a step was out of time, and what it was at, if it told.
func overdue(a Action, err error) error {
	message := "it did not end within " + a.Timeout.String()
	if at := strings.TrimSuffix(strings.TrimSuffix(err.Error(), context.DeadlineExceeded.Error()), ": "); at != "" {
		message += ": " + at
	}
	return &lifecycle.Error{Code: api.TimedOut, Message: message}
}

// act contains a step that panics: it fails, the peer goes on.
func (d *driver) act(ctx context.Context, a Action) (out lifecycle.Outputs, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("step %s panicked: %v", a.Step.Name, r)
			d.l.cfg.Logger.Error("a step panicked", "step", a.Step.Name, "object", a.Inputs.Key, "panic", r)
		}
	}()
	if a.Undo {
		return nil, a.Step.Undo(ctx, d.l.cfg.Host, a.Inputs)
	}
	return a.Step.Do(ctx, d.l.cfg.Host, a.Inputs)
}
