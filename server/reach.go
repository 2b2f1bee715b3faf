package server

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/crdt"
)

// memberClient returns a client for another machine's API. What goes wrong on the way there
// names the machine.
func (s *Server) memberClient(id crdt.MachineID, machine string) apiv1connect.StarlingClient {
	return apiv1connect.NewStarlingClient(s.cfg.Members.HTTPClient(id), "https://"+machine, connect.WithInterceptors(reach(machine)))
}

// reach is the name of a machine that is called.
type reach string

// fault says of an error that the machine did not answer with itself where it comes from.
func (m reach) fault(ctx context.Context, err error) error {
	var said *connect.Error
	switch {
	case !errors.As(err, &said), errors.Is(err, io.EOF), connect.IsWireError(said), errors.Is(ctx.Err(), context.Canceled):
		return err
	case ctx.Err() != nil:
		return wire(api.Errorf(api.MachineUnreachable, "machine %s did not answer in time", string(m)))
	}
	return wire(api.Errorf(api.MachineUnreachable, "machine %s can't be reached: %w", string(m), said.Unwrap()))
}

// WrapUnary implements connect.Interceptor.
func (m reach) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		return res, m.fault(ctx, err)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (m reach) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return reaching{next(ctx, spec), ctx, m}
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (m reach) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// reaching is a stream to the machine.
type reaching struct {
	connect.StreamingClientConn
	ctx context.Context //nolint:containedctx // of the stream, which the methods don't get
	m   reach
}

// Receive reads from the stream.
func (r reaching) Receive(msg any) error {
	return r.m.fault(r.ctx, r.StreamingClientConn.Receive(msg))
}
