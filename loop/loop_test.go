package loop

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
)

// peer is the other end: it takes one loop at a time and calls it as the test says.
type peer struct {
	apiv1connect.UnimplementedStarlingHandler
	refuse   error
	declared chan *apiv1.AttachRequest // room for one: the test reads each
	calls    chan *apiv1.StepCall
	results  chan *apiv1.StepResult
}

func (p *peer) Attach(ctx context.Context, req *apiv1.AttachRequest, out *connect.ServerStream[apiv1.StepCall]) error {
	if p.refuse != nil {
		return p.refuse
	}
	p.declared <- req
	if err := out.Send(&apiv1.StepCall{Session: "s"}); err != nil {
		return err
	}
	for {
		select {
		case c, more := <-p.calls:
			if !more {
				return nil
			}
			if err := out.Send(c); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *peer) Finish(_ context.Context, r *apiv1.StepResult) (*apiv1.FinishResponse, error) {
	p.results <- r
	return &apiv1.FinishResponse{}, nil
}

// serve starts a peer and returns the path of its socket.
func (p *peer) serve(t *testing.T) string {
	t.Helper()
	p.declared, p.calls, p.results = make(chan *apiv1.AttachRequest, 1), make(chan *apiv1.StepCall), make(chan *apiv1.StepResult, 1)
	path := filepath.Join(t.TempDir(), "peer.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewStarlingHandler(p))
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return path
}

// start runs the loop until the end of the test.
func start(t *testing.T, socket string, l Loop) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // one word, for a test that may not listen
	go func() { ended <- Run(ctx, Config{Socket: socket, Loop: l, Logger: slog.New(slog.DiscardHandler)}) }()
	t.Cleanup(cancel)
	return ended
}

func audit(do func(context.Context, Call) (Fields, error)) Loop {
	return Loop{Name: "audit", Steps: []Step{{
		Name: "check", Kind: "Pod", Requires: []string{"image"}, RequiredBy: []string{"container"},
		Reads: []string{"spec.labels"}, Outputs: []string{"status.loops.audit"}, Timeout: 3 * time.Second, Now: true, Do: do,
	}}}
}

func callWith(id uint64) *apiv1.StepCall {
	return &apiv1.StepCall{
		Session: "s", Id: id, Step: "check", Key: &apiv1.Key{Kind: "Pod", Namespace: "default", Name: "web"},
		Fields: api.Fields{"spec.labels.a": `"b"`}, DeadlineMs: time.Now().Add(time.Minute).UnixMilli(), Machine: "m1", Attempt: 2,
	}
}

func TestLoopIsCalled(t *testing.T) {
	p := &peer{}
	var got Call
	start(t, p.serve(t), audit(func(_ context.Context, c Call) (Fields, error) {
		got = c
		return Fields{"status.loops.audit.passed": "true"}, nil
	}))
	d := <-p.declared
	if s := d.GetSteps()[0]; d.GetLoop() != "audit" || s.GetKind() != "Pod" || s.GetTimeoutMs() != 3000 || s.GetExisting() != api.ExistingNow || s.GetUndo() {
		t.Errorf("declared %v", d)
	}
	p.calls <- callWith(7)
	r := <-p.results
	if r.GetId() != 7 || r.GetSession() != "s" || r.GetMessage() != "" || r.GetOutputs()["status.loops.audit.passed"] != "true" {
		t.Errorf("result %v", r)
	}
	if got.Object.Name != "web" || got.Fields.String("spec.labels.a") != "b" || got.Machine != "m1" || got.Attempt != 2 {
		t.Errorf("called with %+v", got)
	}
}

func TestFailuresAreTold(t *testing.T) {
	p := &peer{}
	start(t, p.serve(t), audit(func(_ context.Context, c Call) (Fields, error) {
		switch c.Attempt {
		case 1:
			return nil, errors.New("no such thing")
		case 2:
			return nil, &Failure{Code: "Untrusted", Message: "not that image", Wait: true}
		}
		panic("out of hand")
	}))
	<-p.declared
	for attempt, want := range []*apiv1.StepResult{
		{Message: "no such thing"},
		{Message: "not that image", Code: "Untrusted", Wait: true},
		{Message: "loop audit, step check panicked: out of hand"},
	} {
		c := callWith(uint64(attempt))
		c.Attempt = uint64(attempt + 1)
		p.calls <- c
		if r := <-p.results; r.GetMessage() != want.GetMessage() || r.GetCode() != want.GetCode() || r.GetWait() != want.GetWait() {
			t.Errorf("attempt %d ended with %v, want %v", attempt+1, r, want)
		}
	}
	c := callWith(9)
	c.Step = "other"
	p.calls <- c
	if r := <-p.results; !strings.Contains(r.GetMessage(), `has no step "other"`) {
		t.Errorf("an unknown step ended with %v", r)
	}
}

func TestCancelledCallHasNoResult(t *testing.T) {
	p := &peer{}
	begun, ended := make(chan bool), make(chan error)
	start(t, p.serve(t), audit(func(ctx context.Context, c Call) (Fields, error) {
		if c.Attempt == 1 {
			return nil, nil
		}
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}))
	<-p.declared
	p.calls <- callWith(1)
	<-begun
	p.calls <- &apiv1.StepCall{Session: "s", Id: 1, Cancel: true}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the step's context ended with %v", err)
	}
	next := callWith(2)
	next.Attempt = 1
	p.calls <- next
	if r := <-p.results; r.GetId() != 2 {
		t.Errorf("a cancelled call sent %v", r)
	}
}

func TestAttachesAgain(t *testing.T) {
	p := &peer{}
	start(t, p.serve(t), audit(func(context.Context, Call) (Fields, error) { return nil, nil }))
	<-p.declared
	close(p.calls) // the stream ends, as when the peer restarts
	<-p.declared
}

func TestRefusalEndsTheLoop(t *testing.T) {
	p := &peer{refuse: connect.NewError(connect.CodeInvalidArgument, errors.New("status.machine belongs to loop scheduler"))}
	ended := start(t, p.serve(t), audit(func(context.Context, Call) (Fields, error) { return nil, nil }))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "belongs to loop scheduler") {
		t.Errorf("the loop ended with %v", err)
	}
}

// A step that owns children says all of them, is told how they stand, and may be pending.
func TestChildren(t *testing.T) {
	p := &peer{}
	l := Loop{Name: "site", Steps: []Step{{
		Name: "serve", Kind: "Website", InKind: true, Children: "Pod",
		Do: func(_ context.Context, c Call) (Fields, error) {
			if c.Fields.Bool("spec.broken") {
				c.Own(0, Fields{"spec.x": "1"})
				return nil, errors.New("it is broken")
			}
			c.Own(1, Fields{"spec.x": "1"})
			c.Own(0, Fields{"spec.x": "0"})
			if !c.Children[0].Serving() {
				return Fields{"status.loops.site.ready": "0"}, Pending("0 of 2 serve")
			}
			return Fields{"status.loops.site.at": api.Str(c.Children[0].Address)}, nil
		},
	}}}
	start(t, p.serve(t), l)
	if d := <-p.declared; len(d.GetSteps()) != 0 {
		t.Errorf("a step that its Kind defines is declared: %v", d)
	}
	call := func(f api.Fields) *apiv1.StepResult {
		c := callWith(1)
		c.Step, c.Fields = "serve", f
		p.calls <- c
		return <-p.results
	}
	r := call(api.Fields{})
	if !r.GetPending() || !r.GetOwns() || len(r.GetChildren()) != 2 || r.GetChildren()[1].GetFields()["spec.x"] != "1" || r.GetOutputs()["status.loops.site.ready"] != "0" {
		t.Errorf("while no child serves: %v", r)
	}
	r = call(api.Fields{"children.site.0.state": `"serving"`, "children.site.0.address": `"fd00::1"`})
	if r.GetPending() || r.GetMessage() != "" || !r.GetOwns() || r.GetOutputs()["status.loops.site.at"] != `"fd00::1"` {
		t.Errorf("when a child serves: %v", r)
	}
	if r = call(api.Fields{"spec.broken": "true"}); r.GetOwns() || r.GetMessage() != "it is broken" {
		t.Errorf("a step that fails changes no child: %v", r)
	}
}
