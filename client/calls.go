package client

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/api/v1/calls"
)

// What has one request and one answer goes by package calls, unless the peer does not
// know that; the rest of the service, which are streams, by HTTP/2.

// call calls a procedure, and falls back to HTTP.
func call[Req, Res any, Q interface {
	*Req
	proto.Message
}, S interface {
	*Res
	proto.Message
}](ctx context.Context, c *Client, procedure string, req *Req, byHTTP func(context.Context, *Req) (*Res, error)) (*Res, error) {
	if c.plain.Load() {
		return byHTTP(ctx, req)
	}
	res := new(Res)
	err := c.caller.Call(ctx, procedure, Q(req), S(res))
	if errors.Is(err, calls.ErrNotSpoken) {
		if errors.Is(err, calls.ErrRefused) {
			c.plain.Store(true)
		}
		return byHTTP(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Apply calls the procedure of that name.
func (c *Client) Apply(ctx context.Context, req *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	return call(ctx, c, apiv1connect.StarlingApplyProcedure, req, c.StarlingClient.Apply)
}

// Plan calls the procedure of that name.
func (c *Client) Plan(ctx context.Context, req *apiv1.ApplyRequest) (*apiv1.PlanResponse, error) {
	return call(ctx, c, apiv1connect.StarlingPlanProcedure, req, c.StarlingClient.Plan)
}

// Rollback calls the procedure of that name.
func (c *Client) Rollback(ctx context.Context, req *apiv1.RollbackRequest) (*apiv1.ApplyResponse, error) {
	return call(ctx, c, apiv1connect.StarlingRollbackProcedure, req, c.StarlingClient.Rollback)
}

// Get calls the procedure of that name.
func (c *Client) Get(ctx context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	return call(ctx, c, apiv1connect.StarlingGetProcedure, req, c.StarlingClient.Get)
}

// Status calls the procedure of that name.
func (c *Client) Status(ctx context.Context, req *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
	return call(ctx, c, apiv1connect.StarlingStatusProcedure, req, c.StarlingClient.Status)
}

// Why calls the procedure of that name.
func (c *Client) Why(ctx context.Context, req *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
	return call(ctx, c, apiv1connect.StarlingWhyProcedure, req, c.StarlingClient.Why)
}

// History calls the procedure of that name.
func (c *Client) History(ctx context.Context, req *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	return call(ctx, c, apiv1connect.StarlingHistoryProcedure, req, c.StarlingClient.History)
}

// Machines calls the procedure of that name.
func (c *Client) Machines(ctx context.Context, req *apiv1.MachinesRequest) (*apiv1.MachinesResponse, error) {
	return call(ctx, c, apiv1connect.StarlingMachinesProcedure, req, c.StarlingClient.Machines)
}

// Invite calls the procedure of that name.
func (c *Client) Invite(ctx context.Context, req *apiv1.InviteRequest) (*apiv1.InviteResponse, error) {
	return call(ctx, c, apiv1connect.StarlingInviteProcedure, req, c.StarlingClient.Invite)
}

// RemoveMachine calls the procedure of that name.
func (c *Client) RemoveMachine(ctx context.Context, req *apiv1.RemoveMachineRequest) (*apiv1.RemoveMachineResponse, error) {
	return call(ctx, c, apiv1connect.StarlingRemoveMachineProcedure, req, c.StarlingClient.RemoveMachine)
}

// Images calls the procedure of that name.
func (c *Client) Images(ctx context.Context, req *apiv1.ImagesRequest) (*apiv1.ImagesResponse, error) {
	return call(ctx, c, apiv1connect.StarlingImagesProcedure, req, c.StarlingClient.Images)
}

// RemoveImages calls the procedure of that name.
func (c *Client) RemoveImages(ctx context.Context, req *apiv1.RemoveImagesRequest) (*apiv1.ImagesResponse, error) {
	return call(ctx, c, apiv1connect.StarlingRemoveImagesProcedure, req, c.StarlingClient.RemoveImages)
}

// Top calls the procedure of that name.
func (c *Client) Top(ctx context.Context, req *apiv1.TopRequest) (*apiv1.TopResponse, error) {
	return call(ctx, c, apiv1connect.StarlingTopProcedure, req, c.StarlingClient.Top)
}

// Tunnels calls the procedure of that name.
func (c *Client) Tunnels(ctx context.Context, req *apiv1.TunnelsRequest) (*apiv1.TunnelsResponse, error) {
	return call(ctx, c, apiv1connect.StarlingTunnelsProcedure, req, c.StarlingClient.Tunnels)
}

// Doctor calls the procedure of that name.
func (c *Client) Doctor(ctx context.Context, req *apiv1.DoctorRequest) (*apiv1.DoctorResponse, error) {
	return call(ctx, c, apiv1connect.StarlingDoctorProcedure, req, c.StarlingClient.Doctor)
}

// Analyze calls the procedure of that name.
func (c *Client) Analyze(ctx context.Context, req *apiv1.AnalyzeRequest) (*apiv1.AnalyzeResponse, error) {
	return call(ctx, c, apiv1connect.StarlingAnalyzeProcedure, req, c.StarlingClient.Analyze)
}

// Explain calls the procedure of that name.
func (c *Client) Explain(ctx context.Context, req *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
	return call(ctx, c, apiv1connect.StarlingExplainProcedure, req, c.StarlingClient.Explain)
}

// Verify calls the procedure of that name.
func (c *Client) Verify(ctx context.Context, req *apiv1.VerifyRequest) (*apiv1.VerifyResponse, error) {
	return call(ctx, c, apiv1connect.StarlingVerifyProcedure, req, c.StarlingClient.Verify)
}

// Finish calls the procedure of that name.
func (c *Client) Finish(ctx context.Context, req *apiv1.StepResult) (*apiv1.FinishResponse, error) {
	return call(ctx, c, apiv1connect.StarlingFinishProcedure, req, c.StarlingClient.Finish)
}

// Debug calls the procedure of that name.
func (c *Client) Debug(ctx context.Context, req *apiv1.DebugRequest) (*apiv1.DebugResponse, error) {
	return call(ctx, c, apiv1connect.StarlingDebugProcedure, req, c.StarlingClient.Debug)
}
