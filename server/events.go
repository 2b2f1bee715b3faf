package server

import (
	"context"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// Events sends the results of steps, and with follow goes on as they happen.
func (s *Server) Events(ctx context.Context, req *apiv1.EventsRequest, out *connect.ServerStream[apiv1.Event]) error {
	authors, err := authorsOf(req)
	if err != nil {
		return err
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
			if !wanted(h, req, authors) {
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

func wanted(h peer.Happened, req *apiv1.EventsRequest, authors api.Authors) bool {
	key := keyOf(req.GetKey())
	if crdt.Millis(h.HLC) < req.GetSinceMs() || !authors.Has("loop:"+h.Loop) {
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
