package server

import (
	"context"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// Events sends the results of steps, and with follow goes on as they happen.
func (s *Server) Events(ctx context.Context, req *apiv1.EventsRequest, out *connect.ServerStream[apiv1.Event]) error {
	if fault := checkAuthors(slices.Concat(req.GetBy(), req.GetNotBy())...); fault != nil {
		return wire(fault)
	}
	after := uint64(0)
	for {
		turned := s.cfg.Loop.Turned()
		var list []peer.Happened
		if err := s.read(ctx, func(c *peer.Core) *api.Error {
			list, after = c.Events(after)
			return nil
		}); err != nil {
			return err
		}
		for _, h := range list {
			if !wanted(h, req) {
				continue
			}
			if err := out.Send(eventTo(h)); err != nil {
				return err
			}
		}
		if !req.GetFollow() {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err() // a deadline of the client's is told as one
		}
	}
}

func wanted(h peer.Happened, req *apiv1.EventsRequest) bool {
	key := keyOf(req.GetKey())
	if crdt.Millis(h.HLC) < req.GetSinceMs() || !authored("loop:"+h.Loop, req.GetBy(), req.GetNotBy()) {
		return false
	}
	return (key.Name == "" || key == h.Key) && (req.GetLoop() == "" || req.GetLoop() == h.Loop)
}

func eventTo(h peer.Happened) *apiv1.Event {
	phases := map[crdt.Phase]string{crdt.PhaseStarted: "started", crdt.PhaseDone: "done", crdt.PhaseFailed: "failed", crdt.PhaseUndone: "undone"}
	r := h.Register
	e := &apiv1.Event{
		Key: keyTo(h.Key), TimeMs: crdt.Millis(h.HLC), Loop: h.Loop, Step: h.Step, Phase: phases[r.Phase],
		Attempt: r.Attempt, Machine: h.Machine, Code: r.Code, Message: r.Message,
	}
	if r.Finished > 0 {
		e.TookMs = r.Finished - r.Started
	}
	return e
}

// Watch sends the state of the selected objects now and at each change. One that is
// named and not there is sent as gone at once, so that its end can be waited for.
func (s *Server) Watch(ctx context.Context, req *apiv1.WatchRequest, out *connect.ServerStream[apiv1.ObjectState]) error {
	sent := map[api.Key]*apiv1.ObjectState{}
	if req.GetName() != "" {
		sent[api.Key{Kind: req.GetKind(), Namespace: req.GetNamespace(), Name: req.GetName()}] = nil
	}
	for {
		turned := s.cfg.Loop.Turned()
		now := map[api.Key]*apiv1.ObjectState{}
		if err := s.read(ctx, func(c *peer.Core) *api.Error {
			for _, seen := range selected(c, req.GetKind(), req.GetNamespace(), req.GetName()) {
				now[seen.Object.Key] = stateTo(seen)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := sendChanges(out, sent, now); err != nil {
			return err
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err() // a deadline of the client's is told as one
		}
	}
}

// sendChanges sends what is new, and what is gone, and remembers it.
func sendChanges(out *connect.ServerStream[apiv1.ObjectState], sent, now map[api.Key]*apiv1.ObjectState) error {
	for _, key := range slices.SortedFunc(maps.Keys(now), api.Key.Compare) {
		if proto.Equal(sent[key], now[key]) {
			continue
		}
		if err := out.Send(now[key]); err != nil {
			return err
		}
		sent[key] = now[key]
	}
	for _, key := range slices.SortedFunc(maps.Keys(sent), api.Key.Compare) {
		if now[key] != nil {
			continue
		}
		delete(sent, key)
		if err := out.Send(&apiv1.ObjectState{Object: &apiv1.Object{Key: keyTo(key)}, Gone: true}); err != nil {
			return err
		}
	}
	return nil
}
