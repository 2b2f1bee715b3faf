package oci

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"starling.dev/starling/loops"
)

// Topics of containerd's events. The second is ours.
const (
	topicExit  = "/tasks/exit"
	topicProbe = "/starling/watching"
)

// Watch tells every exit that was not caused by us, until ctx is done. An exit is
// found by containerd's event or, if that was missed, by looking at all containers,
// which happens at the start and after each reconnection. After a restart of the
// peer an exit may be told a second time. tell is called by one goroutine at a time.
func (r *Runtime) Watch(ctx context.Context, tell func(loops.Exit)) error {
	ctx = r.in(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.board.drain(ctx, tell) })
	for pause := time.Duration(0); ctx.Err() == nil; {
		began := time.Now()
		err := r.watchOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause = nextBackoff(pause, time.Since(began))
		r.cfg.Logger.Warn("lost containerd's events; subscribing again", "after", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// watchOnce follows one subscription to its end.
func (r *Runtime) watchOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	namespace := fmt.Sprintf("namespace==%s", r.cfg.Namespace)
	incoming, failed := r.client.Subscribe(ctx,
		fmt.Sprintf("%s,topic==%q", namespace, topicExit),
		fmt.Sprintf("%s,topic==%q", namespace, topicProbe))
	probe, inForce := rand.Text(), make(chan struct{})
	group.Go(func() {
		if r.publishProbe(ctx, probe, inForce) {
			r.reconcile(ctx, cancel)
		} else {
			cancel()
		}
	})
	for {
		select {
		case event := <-incoming:
			if seen := r.handle(ctx, &group, event, probe); seen {
				probe = ""
				close(inForce)
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return errors.New("containerd accepts no subscription")
		}
	}
}

// publishProbe publishes an event of our own until it comes back, which proves that
// the subscription is in force: what ended before is found by reconcile, what ends
// later by its event, and nothing falls between. It tells whether it came back.
func (r *Runtime) publishProbe(ctx context.Context, probe string, inForce <-chan struct{}) bool {
	deadline := time.After(10 * time.Second)
	for {
		if err := r.client.EventService().Publish(ctx, topicProbe, &eventsapi.ContainerUpdate{ID: probe}); err != nil {
			return false
		}
		select {
		case <-inForce:
			return true
		case <-ctx.Done():
			return false
		case <-deadline:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// handle starts what an event asks for, and tells whether it was the probe.
func (r *Runtime) handle(ctx context.Context, group *sync.WaitGroup, event *events.Envelope, probe string) (seen bool) {
	content, err := typeurl.UnmarshalAny(event.Event)
	if err != nil {
		r.cfg.Logger.Warn("containerd sent an event that can't be read", "topic", event.Topic, "error", err)
		return false
	}
	switch e := content.(type) {
	case *eventsapi.ContainerUpdate:
		return probe != "" && e.ID == probe
	case *eventsapi.TaskExit:
		if e.ID == e.ContainerID { // others are processes of exec
			seen := &exitLabel{Code: e.ExitStatus, At: e.ExitedAt.AsTime()}
			group.Go(func() { r.settleID(ctx, e.ContainerID, seen) })
		}
	}
	return false
}

// reconcile settles and tells what ended while nobody looked, with or without a trace.
func (r *Runtime) reconcile(ctx context.Context, fail func()) {
	all, err := r.allRecords(ctx)
	if err != nil {
		r.cfg.Logger.Warn("can't look for containers that ended", "error", err)
		fail()
		return
	}
	newest := map[string]uint64{}
	for _, rec := range all {
		key := rec.PodID + "/" + rec.Container
		newest[key] = max(newest[key], rec.Generation)
	}
	for _, rec := range all {
		latest := rec.Generation == newest[rec.PodID+"/"+rec.Container]
		if rec.Phase == phaseStopped || (rec.Phase == phaseNone && latest) {
			r.settleID(ctx, rec.ID, nil)
		}
	}
}

// settleID settles a container's exit, unless someone else has done so by now.
func (r *Runtime) settleID(ctx context.Context, id string, seen *exitLabel) {
	err := r.settleLocked(ctx, id, seen)
	if err != nil && !errdefs.IsNotFound(err) && ctx.Err() == nil {
		r.cfg.Logger.Warn("can't settle a container's exit", "container", id, "error", err)
	}
}

func (r *Runtime) settleLocked(ctx context.Context, id string, seen *exitLabel) error {
	container, err := r.client.ContainerService().Get(ctx, id)
	if err != nil {
		return err
	}
	unlock, err := r.pods.lock(ctx, container.Labels[labelPod])
	if err != nil {
		return err
	}
	defer unlock()
	// What was read before the lock may have changed since.
	if container, err = r.client.ContainerService().Get(ctx, id); err != nil {
		return err
	}
	rec, ok, err := r.recordOf(ctx, container)
	if err != nil || !ok || rec.Phase == phaseRunning || rec.Phase == phaseCreated {
		return err
	}
	_, err = r.settle(ctx, rec, seen)
	return err
}
