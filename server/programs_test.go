package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/lifecycle"
)

func TestProgramsCall(t *testing.T) {
	p := NewPrograms()
	in := lifecycle.Inputs{Key: api.Key{Kind: "Pod", Name: "web"}, Machine: "m1", Fields: api.Fields{"spec.a": "1"}, Attempt: 3}
	_, err := p.Call(t.Context(), "audit", "check", false, in)
	if f := (*lifecycle.Error)(nil); !errors.As(err, &f) || f.Code != api.LoopDetached || !f.Wait {
		t.Fatalf("a loop that is not attached: %v", err)
	}
	s, err := p.attach("audit")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.attach("audit"); api.CodeOf(err) != api.AlreadyExists {
		t.Errorf("a second program of one loop: %v", err)
	}
	go func() {
		call := <-s.calls
		s.finish(&apiv1.StepResult{Id: call.GetId() + 1}) // nobody's
		s.finish(&apiv1.StepResult{Id: call.GetId(), Outputs: call.GetFields()})
	}()
	out, err := p.Call(t.Context(), "audit", "check", false, in)
	if err != nil || out["spec.a"] != "1" {
		t.Errorf("the call ended with %v, %v", out, err)
	}
	go func() {
		call := <-s.calls
		s.finish(&apiv1.StepResult{Id: call.GetId(), Message: "not that image", Wait: true, Code: "Untrusted"})
	}()
	_, err = p.Call(t.Context(), "audit", "check", false, in)
	if f := (*lifecycle.Error)(nil); !errors.As(err, &f) || f.Code != "Untrusted" || !f.Wait || f.Message != "not that image" {
		t.Errorf("a failed call ended with %v", err)
	}
}

// A program is told when its answer is not wanted any more, and one that goes away
// leaves nobody waiting.
func TestProgramsEndCalls(t *testing.T) {
	p := NewPrograms()
	s, err := p.attach("audit")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	cancelled := make(chan uint64, 1)
	go func() {
		call := <-s.calls
		if next := <-s.calls; next.GetCancel() && next.GetId() == call.GetId() {
			cancelled <- next.GetId()
		}
	}()
	if _, err := p.Call(ctx, "audit", "check", false, lifecycle.Inputs{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call past its deadline ended with %v", err)
	}
	<-cancelled
	go func() {
		<-s.calls
		p.detach(s)
	}()
	_, err = p.Call(t.Context(), "audit", "check", false, lifecycle.Inputs{Machine: "m1"})
	if f := (*lifecycle.Error)(nil); !errors.As(err, &f) || f.Code != api.LoopDetached {
		t.Errorf("a program that went away: %v", err)
	}
	if len(s.pending) != 0 {
		t.Errorf("%d calls are still waited for", len(s.pending))
	}
}
