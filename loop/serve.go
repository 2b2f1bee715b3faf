package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// serving is one attachment to a peer.
type serving struct {
	cfg   Config
	peer  *client.Client
	calls sync.WaitGroup

	mu      sync.Mutex // guards what follows
	running map[uint64]context.CancelFunc
}

// serve attaches once, and returns when the stream ends and no call runs any more.
func serve(ctx context.Context, peer *client.Client, cfg Config) error {
	defer peer.Close()
	ctx, cancel := context.WithCancel(ctx)
	s := &serving{cfg: cfg, peer: peer, running: map[uint64]context.CancelFunc{}}
	defer s.calls.Wait()
	defer cancel()
	stream, err := peer.Attach(ctx, declare(cfg.Loop))
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		s.take(ctx, stream.Msg())
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return errors.New("the peer ended the attachment")
}

// take starts a call, or cancels one.
func (s *serving) take(ctx context.Context, c *apiv1.StepCall) {
	switch {
	case c.GetCancel():
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel, ok := s.running[c.GetId()]; ok {
			cancel()
		}
		return
	case c.GetStep() == "":
		s.cfg.Logger.Info("attached", "loop", s.cfg.Loop.Name)
		return
	}
	ctx, cancel := context.WithDeadline(ctx, time.UnixMilli(c.GetDeadlineMs()))
	s.mu.Lock()
	s.running[c.GetId()] = cancel
	s.mu.Unlock()
	s.calls.Go(func() {
		defer func() {
			cancel()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, c.GetId())
		}()
		s.do(ctx, c)
	})
}

// do runs one call and sends its result. One that was cancelled has none to send.
func (s *serving) do(ctx context.Context, c *apiv1.StepCall) {
	result := &apiv1.StepResult{Session: c.GetSession(), Id: c.GetId()}
	out, err := s.run(ctx, c)
	if ctx.Err() != nil {
		return
	}
	result.Outputs = out
	if err != nil {
		result.Message = err.Error()
		if f := (*Failure)(nil); errors.As(err, &f) {
			result.Code, result.Wait = f.Code, f.Wait
		}
	}
	if _, err := s.peer.Finish(ctx, result); err != nil {
		s.cfg.Logger.Warn("a result was not taken", "step", c.GetStep(), "object", c.GetKey().GetName(), "error", err)
	}
}

// run contains a step that panics: it fails, the loop goes on.
func (s *serving) run(ctx context.Context, c *apiv1.StepCall) (out Fields, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("loop %s, step %s panicked: %v", s.cfg.Loop.Name, c.GetStep(), r)
		}
	}()
	for _, step := range s.cfg.Loop.Steps {
		if step.Name != c.GetStep() {
			continue
		}
		call := callOf(c)
		if !c.GetUndo() {
			return step.Do(ctx, call)
		}
		if step.Undo == nil {
			return nil, nil
		}
		return nil, step.Undo(ctx, call)
	}
	return nil, fmt.Errorf("loop %s has no step %q; its program and the Step differ", s.cfg.Loop.Name, c.GetStep())
}

func callOf(c *apiv1.StepCall) Call {
	return Call{
		Object: api.Key{Kind: c.GetKey().GetKind(), Namespace: c.GetKey().GetNamespace(), Name: c.GetKey().GetName()},
		ID:     c.GetObjectId(), Rev: c.GetRev(), Fields: c.GetFields(), Previous: c.GetPrevious(),
		Machine: c.GetMachine(), Attempt: c.GetAttempt(),
	}
}
