package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/api/v1/calls"
)

// echo is a peer that answers why with what it is told to, and sends exec's input back.
type echo struct {
	apiv1connect.UnimplementedStarlingHandler
	err error
}

func (e echo) Why(context.Context, *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
	return &apiv1.WhyResponse{}, e.err
}

func (e echo) Exec(_ context.Context, s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
	for {
		in, err := s.Receive()
		if err != nil {
			return nil
		}
		if err := s.Send(&apiv1.ExecOutput{Stdout: in.GetStdin()}); err != nil {
			return err
		}
	}
}

// serve runs a peer of an older kind, which answers by HTTP/2 alone.
func serve(t *testing.T, e echo) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewStarlingHandler(e))
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	return listen(t, server)
}

func listen(t *testing.T, server *http.Server) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "peer.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	c := New(socket)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		<-done
	})
	return c
}

// A conversation needs both directions at once: each answer is there before the next
// question is asked.
func TestBothWaysAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := serve(t, echo{}).Exec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		said := fmt.Sprintf("word %d", i)
		if err := stream.Send(&apiv1.ExecInput{Stdin: []byte(said)}); err != nil {
			t.Fatal(err)
		}
		heard, err := stream.Receive()
		if err != nil || string(heard.GetStdout()) != said {
			t.Fatalf("the answer to %q is %q (%v)", said, heard.GetStdout(), err)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepCodeAndProblems(t *testing.T) {
	sent := connect.NewError(connect.CodeInvalidArgument, &api.Error{
		Code: api.SpecInvalid, Message: "pod/web is not valid",
		Problems: []api.Problem{{Path: "spec.restart", Message: "it is one of: always, never"}, {Message: "and: the whole is wrong"}},
	})
	sent.Meta().Set(apiv1.CodeHeader, api.SpecInvalid)
	_, err := serve(t, echo{err: sent}).Why(t.Context(), &apiv1.WhyRequest{})
	if !Is(err, api.SpecInvalid) || Is(err, api.NotFound) {
		t.Errorf("the code of %v is lost", err)
	}
	got := (*api.Error)(nil)
	if !errors.As(AsError(err), &got) {
		t.Fatalf("%v is no *api.Error", err)
	}
	want := []api.Problem{{Path: "spec.restart", Message: "it is one of: always, never"}, {Message: "and: the whole is wrong"}}
	if got.Message != "pod/web is not valid" || !reflect.DeepEqual(got.Problems, want) {
		t.Errorf("got %q and %+v, want %+v", got.Message, got.Problems, want)
	}
	if again := AsError(fmt.Errorf("wrapped: %w", got)); again.Error() != "wrapped: "+got.Error() {
		t.Errorf("reading an error twice makes it %q", again)
	}
}

// Every procedure that is not a stream goes by package calls to a peer that knows it.
func TestCallsWithoutHTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("GET "+calls.Path, calls.Handler(nil))
	c := listen(t, &http.Server{Handler: mux})
	service := apiv1.File_starling_proto.Services().Get(0)
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		method := reflect.ValueOf(c).MethodByName(string(m.Name()))
		out := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.New(method.Type().In(1).Elem())})
		if err, _ := out[1].Interface().(error); err == nil || !strings.Contains(err.Error(), "no such procedure") {
			t.Errorf("%s is not called so, but gets %v", m.Name(), err)
		}
	}
}

func TestNoPeer(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	file := filepath.Join(dir, strings.Repeat("x", 200))
	for socket, want := range map[string]string{
		filepath.Join(dir, "none.sock"): "no peer is running at",
		dead:                            "no peer is running at",
		file:                            "connect to the peer at",
	} {
		_, err := New(socket).Why(t.Context(), &apiv1.WhyRequest{})
		if got := AsError(err); !strings.HasPrefix(got.Error(), want) || !strings.Contains(got.Error(), socket) {
			t.Errorf("%s: got %q, want %q and the socket", socket, got, want)
		}
	}
	denied := &NoPeerError{Socket: dead, Err: os.ErrPermission}
	if !strings.Contains(denied.Error(), "sudo") {
		t.Errorf("a socket of root's says %q, and not to use sudo", denied)
	}
}

func TestEndedPeer(t *testing.T) {
	gone := connect.NewError(connect.CodeUnavailable, errors.New("unexpected EOF"))
	if got := AsError(gone); !strings.Contains(got.Error(), "ended before it answered") || !errors.Is(got, gone) {
		t.Errorf("a peer that went away says %q", got)
	}
	if got := AsError(nil); got != nil {
		t.Errorf("no error becomes %v", got)
	}
}
