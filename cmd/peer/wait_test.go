package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"connectrpc.com/connect"

	apiv1 "starling.dev/starling/api/v1"
)

func podAt(verdict, goal string, steps ...*apiv1.StepStatus) *apiv1.ObjectState {
	return &apiv1.ObjectState{Object: &apiv1.Object{Key: web(), Verdict: verdict}, Goal: goal, Steps: steps}
}

func gone() *apiv1.ObjectState {
	return &apiv1.ObjectState{Object: &apiv1.Object{Key: web()}, Gone: true}
}

func stepIs(name, state string) *apiv1.StepStatus { return &apiv1.StepStatus{Step: name, State: state} }

// watching sends states, and then nothing more.
func watching(states ...*apiv1.ObjectState) *fake {
	return &fake{
		watch: func(ctx context.Context, s *connect.ServerStream[apiv1.ObjectState]) error {
			for _, st := range states {
				if err := s.Send(st); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		},
		why: func(*apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
			return &apiv1.WhyResponse{Verdict: "blocked", Sentence: "pod/web: schedule: no room"}, nil
		},
	}
}

func TestWaitEndsWhenItHolds(t *testing.T) {
	starting := podAt("progressing", "ready", stepIs("image", "done"), stepIs("ready", "waiting"))
	stale := podAt("progressing", "ready", stepIs("image", "done"), &apiv1.StepStatus{Step: "ready", State: "done", Dirty: true})
	ready := podAt("converged", "ready", stepIs("image", "done"), stepIs("ready", "done"))
	stopping := podAt("progressing", "stopped", stepIs("ready", "undoing"))
	stopped := podAt("converged", "stopped", stepIs("ready", "idle"))
	for word, states := range map[string][]*apiv1.ObjectState{
		"ready":     {gone(), starting, stale, ready},
		"image":     {gone(), starting},
		"converged": {starting, ready},
		"stopped":   {ready, stopping, stopped},
		"deleted":   {ready, gone()},
	} {
		last := states[len(states)-1]
		for _, s := range states[:len(states)-1] {
			if met, err := holds(s, word); met || err != nil {
				t.Errorf("--for %s holds at %v (%v)", word, s, err)
			}
		}
		if met, err := holds(last, word); !met || err != nil {
			t.Errorf("--for %s does not hold at %v (%v)", word, last, err)
		}
		watching(states...).run(t, "wait", "web", "--for", word).wantOut(t)
	}
	watching(gone()).run(t, "wait", "web", "--for", "deleted").wantOut(t)
}

func TestWaitGivesUp(t *testing.T) {
	waiting := podAt("blocked", "ready", stepIs("ready", "waiting"))
	o := watching(waiting).run(t, "wait", "web", "--timeout", "50ms")
	o.wantErr(t, exitTimedOut, "blocked: pod/web: schedule: no room", "pod/web is not ready after 50ms")
	watching(waiting).run(t, "wait", "web", "--for", "reddy").wantErr(t, exitError, "pod/web has no such target or step; there are converged, deleted, ready")
	watching(waiting, gone()).run(t, "wait", "web").wantErr(t, exitError, "pod/web was deleted while it was waited for")
}

// What there is is shown, then each change, until the peer ends; whose changes, the peer is
// told.
func TestGetWatches(t *testing.T) {
	f := &fake{watch: func(_ context.Context, s *connect.ServerStream[apiv1.ObjectState]) error {
		ready := podAt("converged", "ready")
		ready.Object.Rev, ready.Object.Phase = "3", "ready"
		return errors.Join(s.Send(ready), s.Send(gone()))
	}}
	o := f.run(t, "get", "pods", "-w", "--by", "user:*", "--not-by", "user:bob")
	o.wantErr(t, exitError, "the peer ended while it was watched")
	if want := "15:09:26.000 pod/web rev 3: converged, ready\n15:09:26.000 pod/web gone\n"; o.out != want {
		t.Errorf("got %q, want %q", o.out, want)
	}
	if r := f.watched; r.GetKind() != "Pod" || !slices.Equal(r.GetBy(), []string{"user:*"}) || !slices.Equal(r.GetNotBy(), []string{"user:bob"}) {
		t.Errorf("the peer was asked for %v", r)
	}
	f.run(t, "get", "pods", "--by", "user:*").wantErr(t, exitError, "-w")
	if o := f.run(t, "get", "pods", "-w", "-o", "name"); o.out != "pod/web\npod/web\n" {
		t.Errorf("by name: %q", o.out)
	}
}
