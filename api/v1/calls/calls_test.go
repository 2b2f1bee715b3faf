package calls

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "starling.dev/starling/api/v1"
)

// service answers why with the kind and name that it is asked about, or with what a test wants.
type service struct {
	why func(context.Context, *apiv1.WhyRequest) (*apiv1.WhyResponse, error)
}

const why = "/starling.v1.Starling/Why"

func (s service) handler() http.Handler {
	return Handler(map[string]Method{why: Unary(s.why)})
}

// serve serves h at the socket until stop is called, or the test ends.
func serveAt(t *testing.T, socket string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: log.New(t.Output(), "", 0)}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	stop = sync.OnceFunc(func() {
		cancel()
		server.Close()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func callerOf(t *testing.T, socket string) *Caller {
	c := NewCaller(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})
	t.Cleanup(c.Close)
	return c
}

func pair(t *testing.T, s service) *Caller {
	socket := filepath.Join(t.TempDir(), "s")
	serveAt(t, socket, s.handler())
	return callerOf(t, socket)
}

func named(_ context.Context, req *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
	return &apiv1.WhyResponse{Sentence: req.GetKey().GetName()}, nil
}

// ask calls and returns the name that comes back.
func ask(ctx context.Context, c *Caller, name string) (string, error) {
	res := &apiv1.WhyResponse{}
	err := c.Call(ctx, why, &apiv1.WhyRequest{Key: &apiv1.Key{Name: name}}, res)
	return res.GetSentence(), err
}

func TestManyCallsAtOnce(t *testing.T) {
	c := pair(t, service{named})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				want := strings.Repeat("x", j*997) + fmt.Sprint(i, j)
				if got, err := ask(t.Context(), c, want); got != want {
					t.Errorf("call %d of %d: got %d bytes, want %d (%v)", j, i, len(got), len(want), err)
				}
			}
		})
	}
	all.Wait()
	if n := len(c.idle); n == 0 || n > 8 {
		t.Errorf("%d connections for 8 callers", n)
	}
}

func TestErrorsArriveAsTheyLeft(t *testing.T) {
	known := connect.NewError(connect.CodeNotFound, errors.New("pod/web does not exist"))
	known.Meta().Set(apiv1.CodeHeader, "NotFound")
	for _, e := range []error{known, errors.New("plain"), context.Canceled, fmt.Errorf("wrapped: %w", context.DeadlineExceeded)} {
		_, err := ask(t.Context(), pair(t, service{func(context.Context, *apiv1.WhyRequest) (*apiv1.WhyResponse, error) { return nil, e }}), "")
		var got *connect.Error
		if !errors.As(err, &got) || !connect.IsWireError(err) {
			t.Fatalf("%v arrives as %v, which is no error of the peer's", e, err)
		}
		want := failureOf(e)
		if got.Code() != want.status || got.Message() != want.text || got.Meta().Get(apiv1.CodeHeader) != want.code {
			t.Errorf("%v arrives as %v with the code %q", e, err, got.Meta().Get(apiv1.CodeHeader))
		}
	}
}

func TestUnknownProcedure(t *testing.T) {
	c := pair(t, service{named})
	if err := c.Call(t.Context(), "/nothing", &apiv1.WhyRequest{}, &apiv1.WhyResponse{}); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("an unknown procedure is answered with %v", err)
	}
	if got, err := ask(t.Context(), c, "web"); got != "web" {
		t.Errorf("after that the connection answers %q (%v)", got, err)
	}
}

// What is called ends with the connection, and the connection with the caller's context.
func TestWhoGivesUpEndsTheCall(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan bool, 1)
	c := pair(t, service{func(ctx context.Context, req *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
		if req.GetKey().GetName() != "slow" {
			return named(ctx, req)
		}
		began <- true
		<-ctx.Done()
		ended <- true
		return nil, ctx.Err()
	}})
	if _, err := ask(t.Context(), c, "web"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := ask(ctx, c, "slow"); connect.CodeOf(err) != connect.CodeCanceled || connect.IsWireError(err) {
		t.Errorf("a call that was given up ends with %v", err)
	}
	<-ended
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, c, "slow"); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("a call that is out of time ends with %v", err)
	}
	if got, err := ask(t.Context(), c, "web"); got != "web" {
		t.Errorf("the next call gets %q (%v)", got, err)
	}
}

// A peer that was started anew has closed the connections that were kept: nobody notices.
func TestARestartedPeer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	c := callerOf(t, socket)
	for range 3 {
		stop := serveAt(t, socket, service{named}.handler())
		if got, err := ask(t.Context(), c, "web"); got != "web" {
			t.Fatalf("got %q (%v)", got, err)
		}
		line := c.idle[0]
		stop()
		if _, err := line.read.from.Peek(1); err == nil { // the end has arrived
			t.Fatal("the peer says something unasked")
		}
	}
}

func TestAPeerThatEndsWhileItAnswers(t *testing.T) {
	var stop func()
	socket := filepath.Join(t.TempDir(), "s")
	stop = serveAt(t, socket, service{func(context.Context, *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
		panic("on purpose")
	}}.handler())
	_, err := ask(t.Context(), callerOf(t, socket), "web")
	if connect.CodeOf(err) != connect.CodeUnavailable || connect.IsWireError(err) {
		t.Errorf("got %v, want that the peer is not available", err)
	}
	stop()
}

func TestNobodyToCall(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	c := callerOf(t, socket)
	if _, err := ask(t.Context(), c, ""); !errors.Is(err, ErrNotSpoken) || errors.Is(err, ErrRefused) {
		t.Errorf("without a peer: %v", err)
	}
	serveAt(t, socket, http.NotFoundHandler())
	if _, err := ask(t.Context(), c, ""); !errors.Is(err, ErrRefused) {
		t.Errorf("a peer without calls: %v", err)
	}
}

func TestWhatIsTooLargeIsNotSent(t *testing.T) {
	c := pair(t, service{named})
	if _, err := ask(t.Context(), c, strings.Repeat("x", MaxRequest)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if got, err := ask(t.Context(), c, "web"); got != "web" {
		t.Errorf("the next call gets %q (%v)", got, err)
	}
}
