package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
)

// fake is a peer that answers what a test says. A method whose function is nil is one
// that the peer does not know.
type fake struct {
	apiv1connect.UnimplementedStarlingHandler
	apply    func(*apiv1.ApplyRequest) (*apiv1.ApplyResponse, error)
	plan     func(*apiv1.ApplyRequest) (*apiv1.PlanResponse, error)
	rollback func(*apiv1.RollbackRequest) (*apiv1.ApplyResponse, error)
	get      func(*apiv1.GetRequest) (*apiv1.GetResponse, error)
	status   func(*apiv1.StatusRequest) (*apiv1.StatusResponse, error)
	why      func(*apiv1.WhyRequest) (*apiv1.WhyResponse, error)
	history  func(*apiv1.HistoryRequest) (*apiv1.HistoryResponse, error)
	events   func(*apiv1.EventsRequest, *connect.ServerStream[apiv1.Event]) error
	watched  *apiv1.WatchRequest // the last request of a watch
	watch    func(context.Context, *connect.ServerStream[apiv1.ObjectState]) error
	logs     func(*apiv1.LogsRequest, *connect.ServerStream[apiv1.LogLine]) error
	exec     func(*connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error
	forward  func(*connect.BidiStream[apiv1.ForwardData, apiv1.ForwardData]) error
	machines func() (*apiv1.MachinesResponse, error)
	invite   func(*apiv1.InviteRequest) (*apiv1.InviteResponse, error)
	remove   func(*apiv1.RemoveMachineRequest) (*apiv1.RemoveMachineResponse, error)
	load     func(*connect.ClientStream[apiv1.ImageChunk]) (*apiv1.ImagesResponse, error)
	images   func() (*apiv1.ImagesResponse, error)
	doctor   func() (*apiv1.DoctorResponse, error)
	debug    func() (*apiv1.DebugResponse, error)
	verify   func(*apiv1.VerifyRequest) (*apiv1.VerifyResponse, error)
	analyze  func(*apiv1.AnalyzeRequest) (*apiv1.AnalyzeResponse, error)
	explain  func(*apiv1.ExplainRequest) (*apiv1.ExplainResponse, error)
}

func (f *fake) Explain(_ context.Context, r *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
	return call(f.explain, r)
}

func (f *fake) Analyze(_ context.Context, r *apiv1.AnalyzeRequest) (*apiv1.AnalyzeResponse, error) {
	return call(f.analyze, r)
}

func (f *fake) Verify(_ context.Context, r *apiv1.VerifyRequest) (*apiv1.VerifyResponse, error) {
	return call(f.verify, r)
}

func unknown() error { return connect.NewError(connect.CodeUnimplemented, nil) }

func call[In, Out any](f func(In) (Out, error), in In) (out Out, err error) {
	if f == nil {
		return out, unknown()
	}
	return f(in)
}

func ask[Out any](f func() (Out, error)) (out Out, err error) {
	if f == nil {
		return out, unknown()
	}
	return f()
}

func (f *fake) Apply(_ context.Context, r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	return call(f.apply, r)
}
func (f *fake) Plan(_ context.Context, r *apiv1.ApplyRequest) (*apiv1.PlanResponse, error) {
	return call(f.plan, r)
}
func (f *fake) Rollback(_ context.Context, r *apiv1.RollbackRequest) (*apiv1.ApplyResponse, error) {
	return call(f.rollback, r)
}
func (f *fake) Get(_ context.Context, r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	return call(f.get, r)
}
func (f *fake) Status(_ context.Context, r *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
	return call(f.status, r)
}
func (f *fake) Why(_ context.Context, r *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
	return call(f.why, r)
}
func (f *fake) History(_ context.Context, r *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	return call(f.history, r)
}
func (f *fake) Events(_ context.Context, r *apiv1.EventsRequest, s *connect.ServerStream[apiv1.Event]) error {
	return f.events(r, s)
}
func (f *fake) Watch(ctx context.Context, r *apiv1.WatchRequest, s *connect.ServerStream[apiv1.ObjectState]) error {
	f.watched = r
	return f.watch(ctx, s)
}
func (f *fake) Logs(_ context.Context, r *apiv1.LogsRequest, s *connect.ServerStream[apiv1.LogLine]) error {
	return f.logs(r, s)
}
func (f *fake) Exec(_ context.Context, s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
	return f.exec(s)
}
func (f *fake) Forward(_ context.Context, s *connect.BidiStream[apiv1.ForwardData, apiv1.ForwardData]) error {
	return f.forward(s)
}
func (f *fake) Machines(context.Context, *apiv1.MachinesRequest) (*apiv1.MachinesResponse, error) {
	return ask(f.machines)
}
func (f *fake) Invite(_ context.Context, r *apiv1.InviteRequest) (*apiv1.InviteResponse, error) {
	return call(f.invite, r)
}
func (f *fake) RemoveMachine(_ context.Context, r *apiv1.RemoveMachineRequest) (*apiv1.RemoveMachineResponse, error) {
	return call(f.remove, r)
}
func (f *fake) LoadImage(_ context.Context, s *connect.ClientStream[apiv1.ImageChunk]) (*apiv1.ImagesResponse, error) {
	return call(f.load, s)
}
func (f *fake) Images(context.Context, *apiv1.ImagesRequest) (*apiv1.ImagesResponse, error) {
	return ask(f.images)
}
func (f *fake) Doctor(context.Context, *apiv1.DoctorRequest) (*apiv1.DoctorResponse, error) {
	return ask(f.doctor)
}
func (f *fake) Debug(context.Context, *apiv1.DebugRequest) (*apiv1.DebugResponse, error) {
	return ask(f.debug)
}

// refusal is an error as a real peer sends it.
func refusal(status connect.Code, err *api.Error) error {
	out := connect.NewError(status, err)
	out.Meta().Set(apiv1.CodeHeader, err.Code)
	return out
}

// serve runs the fake on a real Unix socket, spoken to as a peer is.
func (f *fake) serve(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "peer.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	path, handler := apiv1connect.NewStarlingHandler(f)
	mux.Handle(path, handler)
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Close()
		done.Wait()
	})
	return socket
}

// at is the time of every command in a test.
var at = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// typed is one command line, its input, and its environment.
type typed struct {
	args []string
	in   io.Reader
	env  map[string]string
	ctx  context.Context
}

// outcome is what a command left behind.
type outcome struct {
	code      int
	out, errs string
}

// buffer can be written to by a command's several goroutines.
type buffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// execute runs a command line against a socket.
func execute(t *testing.T, socket string, line typed) outcome {
	t.Helper()
	var out, errs buffer
	code := line.run(socket, &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

func (line typed) run(socket string, out, errs io.Writer) int {
	if line.in == nil {
		line.in = strings.NewReader("")
	}
	if line.ctx == nil {
		line.ctx = context.Background()
	}
	env := func(name string) string { return line.env[name] }
	c := &cli{in: line.in, out: out, errs: errs, env: env, now: func() time.Time { return at }}
	root := rootCommand(c)
	root.SetArgs(append([]string{"--socket", socket, "--as", "alice"}, line.args...))
	return c.exit(line.ctx, root.ExecuteContext(line.ctx))
}

// run runs a command line against the fake.
func (f *fake) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return execute(t, f.serve(t), typed{args: args})
}

// wantOut fails unless a command did well and printed what it should.
func (o outcome) wantOut(t *testing.T, parts ...string) {
	t.Helper()
	if o.code != exitOK {
		t.Errorf("exit code %d, want 0; it said %q", o.code, o.errs)
	}
	for _, p := range parts {
		if !strings.Contains(o.out, p) {
			t.Errorf("the output lacks %q:\n%s", p, o.out)
		}
	}
}

// wantErr fails unless a command failed with a code and said why.
func (o outcome) wantErr(t *testing.T, code int, parts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d; it said %q", o.code, code, o.errs)
	}
	for _, p := range parts {
		if !strings.Contains(o.errs, p) {
			t.Errorf("the message lacks %q:\n%s", p, o.errs)
		}
	}
}
