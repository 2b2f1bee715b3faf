package server

import (
	"context"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/peer"
)

// Explain tells which steps read a field, and who writes it.
func (s *Server) Explain(ctx context.Context, req *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
	out := &apiv1.ExplainResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		for _, g := range c.Graphs() {
			if g.Kind != req.GetKind() {
				continue
			}
			out.Readers = g.Readers(req.GetPath())
			_, one := c.Catalog().FieldOf(g.Kind, req.GetPath())
			if !one && !api.Below(req.GetPath(), "status.loops") {
				return nil // a group has as many writers as it has fields
			}
			if out.Loop, out.Step = g.Writer(req.GetPath()); out.Loop != "" {
				out.Entries = uint32(g.Budget(out.Loop))
			}
			return nil
		}
		return api.Errorf(api.NotFound, "there is no kind %q", req.GetKind())
	})
}
