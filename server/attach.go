package server

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/peer"
)

// Attach makes the calling program a loop of this machine, and sends it its calls.
func (s *Server) Attach(ctx context.Context, req *apiv1.AttachRequest, out *connect.ServerStream[apiv1.StepCall]) error {
	if err := s.locals("attaching a loop"); err != nil {
		return err
	}
	if s.cfg.Programs == nil {
		return wire(api.Errorf(api.Invalid, "this peer takes no foreign loops"))
	}
	if err := api.CheckName(req.GetLoop()); err != nil {
		return wire(api.Errorf(api.SpecInvalid, "attach loop: %w", err))
	}
	if len(req.GetSteps()) > 0 {
		if _, err := s.write(ctx, "loop-"+req.GetLoop(), "declared by loop "+req.GetLoop(), stepEdits(req)); err != nil {
			return err
		}
	}
	session, err := s.cfg.Programs.attach(req.GetLoop())
	if err != nil {
		return wire(err)
	}
	defer s.cfg.Programs.detach(session)
	if err := out.Send(&apiv1.StepCall{Session: session.id}); err != nil {
		return err
	}
	s.cfg.Logger.Info("a loop is attached", "loop", session.loop)
	defer s.cfg.Logger.Info("a loop is no longer attached", "loop", session.loop)
	s.cfg.Loop.Post(ctx, peer.Attached{Loop: session.loop})
	for {
		select {
		case call := <-session.calls:
			if err := out.Send(call); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Finish takes the result of a call.
func (s *Server) Finish(_ context.Context, r *apiv1.StepResult) (*apiv1.FinishResponse, error) {
	if err := s.locals("answering for a loop"); err != nil {
		return nil, err
	}
	if s.cfg.Programs != nil {
		if session, ok := s.cfg.Programs.byID(r.GetSession()); ok {
			session.finish(r)
			return &apiv1.FinishResponse{}, nil
		}
	}
	return nil, wire(api.Errorf(api.NotFound, "there is no such session of a loop; attach again"))
}

// stepEdits are the Steps that a program declares, one for each, named LOOP-STEP.
func stepEdits(req *apiv1.AttachRequest) (edits []peer.Edit) {
	for _, st := range req.GetSteps() {
		f := api.Fields{"spec.kind": api.Str(st.GetKind()), "spec.loop": api.Str(req.GetLoop()), "spec.step": api.Str(st.GetName())}
		lists := map[string][]string{
			"after": st.GetAfter(), "before": st.GetBefore(), "requires": st.GetRequires(), "requiredBy": st.GetRequiredBy(),
			"reads": st.GetReads(), "outputs": st.GetOutputs(), "claims": st.GetClaims(), "consults": st.GetConsults(),
			"wants": st.GetWants(), "wantedBy": st.GetWantedBy(), "by": st.GetBy(), "notBy": st.GetNotBy(),
		}
		for name, list := range lists {
			if len(list) > 0 {
				f["spec."+name] = api.List(list...)
			}
		}
		if ms := st.GetTimeoutMs(); ms > 0 {
			f["spec.timeout"] = api.Duration(time.Duration(ms) * time.Millisecond)
		}
		if ms := st.GetEveryMs(); ms > 0 {
			f["spec.every"] = api.Duration(time.Duration(ms) * time.Millisecond)
		}
		if n := st.GetEntries(); n > 0 {
			f["spec.entries"] = api.Int(n)
		}
		if st.GetUndo() {
			f["spec.undo"] = api.Bool(true)
		}
		for name, value := range map[string]string{"where": st.GetWhere(), "existing": st.GetExisting(), "children": st.GetChildren()} {
			if value != "" {
				f["spec."+name] = api.Str(value)
			}
		}
		edits = append(edits, peer.Edit{Kind: peer.EditApply, Key: api.Key{Kind: "Step", Name: req.GetLoop() + "-" + st.GetName()}, Fields: f})
	}
	return edits
}
