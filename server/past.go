package server

import (
	"context"
	"math"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// run is a stretch of an object's life: what its steps did for one rev.
type run struct {
	from  int64  // Unix milliseconds: when the rev was written; 0 for the last run before a time
	until uint64 // the clock reading with which it ends
}

// statusAt tells where an object's steps stood at the end of a run.
func (s *Server) statusAt(ctx context.Context, key api.Key, when string) (*apiv1.StatusResponse, error) {
	out := &apiv1.StatusResponse{}
	var r run
	if err := s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		o, fault := newest(c, key)
		if fault == nil {
			r, fault = runOf(key, o, when)
		}
		return fault
	}); err != nil {
		return nil, err
	}
	seen, err := s.cfg.Loop.SeeAt(ctx, key, r.until)
	if err != nil {
		return nil, wire(err)
	}
	if seen.Object == nil {
		return nil, wire(api.Errorf(api.NotFound, "%s: the log on %s holds nothing of it as of %s", key, out.View.GetMachine(), when))
	}
	out.FromMs, out.Objects = r.from, []*apiv1.ObjectState{stateTo(seen)}
	return out, nil
}

// runOf is the run that a rev began, or all that there was up to a time. A rev's run ends when somebody writes the next one, or deletes the object.
func runOf(key api.Key, o *crdt.Object, when string) (r run, fault *api.Error) {
	revs, fault := revsAt(key, o, when)
	if fault != nil {
		return r, fault
	}
	if t, err := time.Parse(time.RFC3339, when); err == nil {
		return run{until: afterTime(t)}, nil
	}
	r.until = math.MaxUint64
	var began uint64
	for _, id := range revs {
		rev, _ := o.Rev(id)
		began = max(began, rev.Stamp)
		r.from = max(r.from, crdt.Millis(rev.HLC))
	}
	for _, rev := range o.Revs() {
		if (rev.IsRev || rev.Deletes) && rev.Refused == "" && rev.Stamp > began {
			r.until = min(r.until, rev.Stamp-1)
		}
	}
	return r, nil
}

// afterTime is the clock reading before which everything of that second was written.
func afterTime(t time.Time) uint64 { return uint64(t.UnixMilli()+1) << 16 }

// revsAt are the revs that a name means, or those that were the latest at a time (RFC 3339).
func revsAt(key api.Key, o *crdt.Object, when string) (revs []crdt.ID, fault *api.Error) {
	if t, err := time.Parse(time.RFC3339, when); err == nil {
		revs = o.HeadsAt(afterTime(t))
	} else if revs, err = o.ParseRev(when); err != nil {
		return nil, revFault(key, o, when, err)
	}
	if len(revs) == 0 {
		return nil, api.Errorf(api.NotFound, "%s did not exist at %s", key, when)
	}
	return revs, nil
}
