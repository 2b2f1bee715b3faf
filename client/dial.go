package client

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"

	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/api/v1/calls"
)

// Client calls one peer. Close frees its connections.
type Client struct {
	apiv1connect.StarlingClient
	transport *http.Transport
	caller    *calls.Caller
	plain     atomic.Bool // the peer has refused calls without HTTP
}

// New returns a client of the peer that listens at socket. It connects at the first
// call.
func New(socket string) *Client {
	dial := func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, &NoPeerError{Socket: socket, Err: err}
		}
		return conn, nil
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Protocols:   new(http.Protocols),
	}
	// Commands and their terminals talk both ways at once, which HTTP/1 can't.
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &Client{
		// Compressing what stays in this machine's memory only costs time.
		StarlingClient: apiv1connect.NewStarlingClient(&http.Client{Transport: transport}, "http://peer", connect.WithAcceptCompression("gzip", nil, nil)),
		transport:      transport,
		caller:         calls.NewCaller(dial),
	}
}

// Close drops idle connections.
func (c *Client) Close() {
	c.caller.Close()
	c.transport.CloseIdleConnections()
}
