package server

import (
	"context"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// watched is an object as a watch last looked at it.
type watched struct {
	state *apiv1.ObjectState
	// marks name the changes of the selected authors that the object had, if there is a
	// selector.
	marks string
}

// Watch sends the state of the selected objects now and at each change by one of the
// selected authors. One that is named and not there is sent as gone at once, so that its end
// can be waited for.
func (s *Server) Watch(ctx context.Context, req *apiv1.WatchRequest, out *connect.ServerStream[apiv1.ObjectState]) error {
	authors, err := authorsOf(req)
	if err != nil {
		return err
	}
	seen := map[api.Key]watched{}
	if req.GetName() != "" {
		seen[api.Key{Kind: req.GetKind(), Namespace: req.GetNamespace(), Name: req.GetName()}] = watched{}
	}
	for {
		turned := s.cfg.Loop.Turned()
		now := map[api.Key]watched{}
		if err := s.read(ctx, func(c *peer.Core) *api.Error {
			for _, o := range selected(c, req.GetKind(), req.GetNamespace(), req.GetName()) {
				now[o.Object.Key] = watch(o, seen[o.Object.Key], authors)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := sendChanges(out, seen, now, authors); err != nil {
			return err
		}
		seen = now
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err() // a deadline of the client's is told as one
		}
	}
}

// watch looks at an object; who wrote what is only looked up where something changed.
func watch(o peer.Seen, before watched, authors api.Authors) watched {
	w := watched{state: stateTo(o), marks: before.marks}
	if !authors.Any() && !proto.Equal(before.state, w.state) {
		w.marks = marksOf(o.Folded, authors)
	}
	return w
}

// marksOf names the changes of the authors that the object is made of.
func marksOf(o *crdt.Object, authors api.Authors) string {
	if o == nil {
		return ""
	}
	var b strings.Builder
	for _, r := range o.Revs() {
		if r.Refused == "" && authors.Has(r.Author) {
			b.Write(r.Change[:])
		}
	}
	registers := o.Registers()
	for _, step := range slices.Sorted(maps.Keys(registers)) {
		if id, _, ok := o.ResultChange(step); ok && authors.Has("loop:"+api.StepOwner(o.Ref().Kind, step)) {
			b.Write(id[:])
		}
	}
	return b.String()
}

// news reports whether the object is to be sent: it is new, or one of the authors changed it.
func (w watched) news(before watched, authors api.Authors) bool {
	if before.state == nil {
		return true
	}
	return !proto.Equal(before.state, w.state) && (authors.Any() || w.marks != before.marks)
}

// sendChanges sends what is new, and what is gone.
func sendChanges(out *connect.ServerStream[apiv1.ObjectState], seen, now map[api.Key]watched, authors api.Authors) error {
	for _, key := range slices.SortedFunc(maps.Keys(now), api.Key.Compare) {
		before, is := seen[key], now[key]
		if !is.news(before, authors) {
			continue
		}
		if err := out.Send(is.state); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(seen), api.Key.Compare) {
		if _, there := now[key]; there {
			continue
		}
		if err := out.Send(&apiv1.ObjectState{Object: &apiv1.Object{Key: keyTo(key)}, Gone: true}); err != nil {
			return err
		}
	}
	return nil
}
