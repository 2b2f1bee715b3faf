package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	call := callOf(c)
	out, err := s.run(ctx, c, call)
	if ctx.Err() != nil {
		return
	}
	result.Outputs = out
	waits := (*pending)(nil)
	if err != nil {
		result.Message, result.Pending = err.Error(), errors.As(err, &waits)
		if f := (*Failure)(nil); errors.As(err, &f) {
			result.Code, result.Wait = f.Code, f.Wait
		}
	}
	if !c.GetUndo() && call.owned.declared && (err == nil || result.Pending) {
		result.Owns, result.Children = true, call.owned.list()
	}
	if _, err := s.peer.Finish(ctx, result); err != nil {
		s.cfg.Logger.Warn("a result was not taken", "step", c.GetStep(), "object", c.GetKey().GetName(), "error", err)
	}
}

// run contains a step that panics: it fails, the loop goes on.
func (s *serving) run(ctx context.Context, c *apiv1.StepCall, call Call) (out Fields, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("loop %s, step %s panicked: %v", s.cfg.Loop.Name, c.GetStep(), r)
		}
	}()
	for _, step := range s.cfg.Loop.Steps {
		if step.Name != c.GetStep() {
			continue
		}
		call.owned.declared = step.Children != ""
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

// list is what is asked for, by slot.
func (o *owned) list() []*apiv1.ChildSpec {
	var list []*apiv1.ChildSpec
	for _, slot := range slices.Sorted(maps.Keys(o.specs)) {
		list = append(list, &apiv1.ChildSpec{Slot: uint32(slot), Fields: o.specs[slot]})
	}
	return list
}

// childrenOf takes the children out of what the step reads.
func childrenOf(f Fields) map[int]Child {
	all := map[int]Child{}
	for _, loop := range f.Keys("children") {
		for _, key := range f.Keys(api.Join("children", loop)) {
			at := api.Join("children", loop, key)
			if slot, err := strconv.Atoi(key); err == nil {
				all[slot] = Child{Name: f.String(at + ".name"), State: f.String(at + ".state"), Address: f.String(at + ".address"), Machine: f.String(at + ".machine")}
			}
		}
	}
	return all
}

func callOf(c *apiv1.StepCall) Call {
	return Call{
		Children: childrenOf(c.GetFields()), owned: &owned{specs: map[int]Fields{}},
		Object: api.Key{Kind: c.GetKey().GetKind(), Namespace: c.GetKey().GetNamespace(), Name: c.GetKey().GetName()},
		ID:     c.GetObjectId(), Rev: c.GetRev(), Fields: c.GetFields(), Previous: c.GetPrevious(),
		Machine: c.GetMachine(), Attempt: c.GetAttempt(),
	}
}
