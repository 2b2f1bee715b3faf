package server

import (
	"context"
	"encoding/hex"
	"slices"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// Get lists objects, or returns one as of a rev or a time.
func (s *Server) Get(ctx context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	key := api.Key{Kind: req.GetKind(), Namespace: req.GetNamespace(), Name: req.GetName()}
	single := req.GetAt() == "" && key.Name != ""
	if single {
		if known, ok := s.answers.of(s.cfg.Loop.Version(), key); ok {
			return known, nil
		}
	}
	out, version := &apiv1.GetResponse{}, uint64(0)
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		version = s.cfg.Loop.Version()
		return get(c, key, req.GetAt(), out)
	})
	if err == nil && single {
		s.answers.keep(version, key, out)
	}
	return out, err
}

func get(c *peer.Core, key api.Key, when string, out *apiv1.GetResponse) *api.Error {
	out.View = view(c)
	if when != "" {
		o, fault := at(c, key, when)
		out.Objects = []*apiv1.Object{o}
		return fault
	}
	for _, seen := range selected(c, key.Kind, key.Namespace, key.Name) {
		out.Objects = append(out.Objects, objectTo(seen))
	}
	if key.Name != "" && len(out.Objects) == 0 {
		return noSuch(c, key)
	}
	return nil
}

// selected lists the objects that a request means. One that is named in full is looked
// up: its cost must not grow with the number of objects.
func selected(c *peer.Core, kind, namespace, name string) []peer.Seen {
	if k, ok := c.Catalog().KindByName(kind); ok && name != "" && (namespace != "" || !k.Namespaced) {
		if s, ok := c.See(api.Key{Kind: k.Name, Namespace: namespace, Name: name}); ok {
			return []peer.Seen{s}
		}
		return nil
	}
	return slices.DeleteFunc(c.List(kind), func(s peer.Seen) bool {
		k := s.Object.Key
		return (namespace != "" && k.Namespace != namespace) || (name != "" && k.Name != name)
	})
}

// at is an object's spec as of a rev, or as of a time (RFC 3339).
func at(c *peer.Core, key api.Key, when string) (*apiv1.Object, *api.Error) {
	o, fault := newest(c, key)
	if fault != nil {
		return nil, fault
	}
	revs, fault := revsAt(key, o, when)
	if fault != nil {
		return nil, fault
	}
	spec, err := o.SpecAt(revs...)
	if err != nil {
		return nil, api.Errorf(api.NotFound, "%s: %w", key, err)
	}
	return &apiv1.Object{Key: keyTo(key), Rev: o.RevName(revs[0]), Fields: spec}, nil
}

// Status tells where each step stands.
func (s *Server) Status(ctx context.Context, req *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
	out := &apiv1.StatusResponse{}
	key := keyOf(req.GetKey())
	if req.GetAt() != "" {
		return s.statusAt(ctx, key, req.GetAt())
	}
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		for _, seen := range selected(c, key.Kind, key.Namespace, key.Name) {
			out.Objects = append(out.Objects, stateTo(seen))
		}
		if key.Name != "" && len(out.Objects) == 0 {
			return noSuch(c, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if req.GetLines() > 0 && key.Name != "" {
		out.LastLines = s.lastLines(ctx, req)
	}
	if req.GetNet() {
		return s.withNet(ctx, req, out)
	}
	return out, nil
}

// withNet adds everything of ours in the machine's network, asked of that machine.
func (s *Server) withNet(ctx context.Context, req *apiv1.StatusRequest, out *apiv1.StatusResponse) (*apiv1.StatusResponse, error) {
	other, err := s.elsewhere(ctx, req.GetKey().GetName())
	if err != nil {
		return nil, err
	}
	if other != nil {
		theirs, err := other.Status(ctx, req)
		return theirs, wire(err)
	}
	out.Net, err = s.cfg.Network.State(ctx)
	return out, wire(err)
}

// History tells who changed what.
func (s *Server) History(ctx context.Context, req *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	out := &apiv1.HistoryResponse{}
	key := keyOf(req.GetKey())
	authors, err := authorsOf(req)
	if err != nil {
		return nil, err
	}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		keys := []api.Key{key}
		if key.Name == "" {
			keys = c.Keys()
		}
		lives := 0
		for _, k := range keys {
			for _, o := range c.Incarnations(k) {
				lives++
				out.Entries = append(out.Entries, entriesOf(k, o, req, authors)...)
			}
		}
		if key.Name != "" && lives == 0 {
			return noSuch(c, key)
		}
		slices.SortStableFunc(out.Entries, func(a, b *apiv1.HistoryEntry) int { return int(a.TimeMs - b.TimeMs) })
		return nil
	})
}

func entriesOf(key api.Key, o *crdt.Object, req *apiv1.HistoryRequest, authors api.Authors) []*apiv1.HistoryEntry {
	var entries []*apiv1.HistoryEntry
	heads := o.Heads()
	for _, r := range o.Revs() {
		ms := crdt.Millis(r.HLC)
		if ms < req.GetSinceMs() || !authors.Has(r.Author) {
			continue
		}
		e := &apiv1.HistoryEntry{
			Key: keyTo(key), Change: hex.EncodeToString(r.Change[:]), ChangeSet: setName(r.Set), Author: r.Author,
			TimeMs: ms, Message: r.Message, Refused: r.Refused, Deletes: r.Deletes, Current: slices.Contains(heads, r.Change) && !o.Deleted(),
		}
		if r.IsRev {
			e.Rev = o.RevName(r.Change)
		}
		if req.GetDiff() {
			e.Diff = diffOf(o, r)
		}
		entries = append(entries, e)
	}
	return entries
}

// authorsOf reads the selector of authors that a request has.
func authorsOf(req interface {
	GetBy() []string
	GetNotBy() []string
}) (api.Authors, error) {
	a := api.Authors{By: req.GetBy(), NotBy: req.GetNotBy()}
	if err := a.Check(); err != nil {
		return a, wire(api.Errorf(api.SpecInvalid, "%w", err))
	}
	return a, nil
}

func setName(set [16]byte) string {
	if set == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(set[:6])
}

// diffOf is what a change altered: its operations against the spec that its author saw.
func diffOf(o *crdt.Object, r crdt.Rev) []*apiv1.FieldDiff {
	before, err := o.SpecAt(r.Parents...)
	if err != nil || len(r.Parents) == 0 {
		before = map[string]string{}
	}
	var diff []*apiv1.FieldDiff
	for _, op := range r.Ops {
		switch op.Kind {
		case crdt.OpSet:
			diff = append(diff, &apiv1.FieldDiff{Path: op.Path, Old: before[op.Path], New: op.Value})
		case crdt.OpUnset:
			diff = append(diff, &apiv1.FieldDiff{Path: op.Path, Old: before[op.Path]})
		}
	}
	return diff
}

// Debug returns figures for tests and for people who look for faults.
func (s *Server) Debug(ctx context.Context, _ *apiv1.DebugRequest) (*apiv1.DebugResponse, error) {
	out := &apiv1.DebugResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		hash := c.StateHash()
		out.StateHash, out.Figures, out.View = hex.EncodeToString(hash[:]), c.Figures(), view(c)
		return nil
	})
}
