package server

import (
	"context"
	"slices"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// Verify proves that the lifecycles converge, with the steps of foreign loops in them.
func (s *Server) Verify(ctx context.Context, req *apiv1.VerifyRequest) (*apiv1.VerifyResponse, error) {
	out := &apiv1.VerifyResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		graphs := c.Graphs()
		if req.GetKind() != "" {
			graphs = slices.DeleteFunc(graphs, func(g *lifecycle.Graph) bool { return g.Kind != req.GetKind() })
			if len(graphs) == 0 {
				return api.Errorf(api.NotFound, "there is no kind %q", req.GetKind())
			}
		}
		out.Misfits = c.Misfits()
		proof, err := lifecycle.Verify(graphs...)
		if err != nil {
			return api.Errorf(api.LoopRefused, "the lifecycles clash: %w", err)
		}
		out.Proof = proof.String()
		return draw(out, graphs, req.GetDrawing())
	})
}

func draw(out *apiv1.VerifyResponse, graphs []*lifecycle.Graph, how string) *api.Error {
	switch {
	case how == "":
		return nil
	case len(graphs) != 1:
		return api.Errorf(api.Invalid, "a drawing shows one lifecycle; name a kind")
	case how == "dot":
		out.Drawing = graphs[0].Dot()
	case how == "svg":
		out.Drawing = graphs[0].SVG()
	default:
		return api.Errorf(api.Invalid, "%q is no drawing; there are dot and svg", how)
	}
	return nil
}
