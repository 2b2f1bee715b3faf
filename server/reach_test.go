package server

import (
	"context"
	"errors"
	"io"
	"testing"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
)

// What breaks on the way to another machine names it; what the machine says is passed on.
func TestFaultsOnTheWayNameTheMachine(t *testing.T) {
	m, ctx := reach("m3"), context.Background()
	lost := m.fault(ctx, connect.NewError(connect.CodeUnavailable, errors.New("http2: client connection lost")))
	if want := "machine m3 can't be reached: http2: client connection lost"; lost == nil || connect.CodeOf(lost) != connect.CodeUnavailable {
		t.Fatalf("got %v, want %q", lost, want)
	} else if said := new(connect.Error); !errors.As(lost, &said) || said.Message() != want || said.Meta().Get(CodeHeader) != api.MachineUnreachable {
		t.Errorf("got %q, want %q", said.Message(), want)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	own := connect.NewError(connect.CodeCanceled, context.Canceled)
	answer := connect.NewWireError(connect.CodeNotFound, errors.New("pod/web does not exist"))
	for _, err := range []error{nil, io.EOF, answer} {
		if got := m.fault(ctx, err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if got := m.fault(gone, own); got != own {
		t.Errorf("%v became %v", own, got)
	}
	late, cancel := context.WithTimeout(ctx, 0)
	defer cancel()
	slow := m.fault(late, connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded))
	if want := "machine m3 did not answer in time"; messageOf(slow) != want {
		t.Errorf("got %q, want %q", messageOf(slow), want)
	}
}
