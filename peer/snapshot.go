package peer

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// snapshot turns the folded object into what the lifecycle engine reads. What is as it
// was in the snapshot before is shared with it: nearly every change is of one result.
func (e *engine) snapshot(t *tracked, o *crdt.Object, old *warm) *warm {
	w := &warm{folded: o}
	w.snap = &lifecycle.Object{Key: api.Key(t.ref), Rev: o.Number(), Deleted: o.Deleted()}
	if old == nil || old.folded.ID() != o.ID() {
		w.snap.ID, w.snap.Fields = shortID(o), t.kind.Effective(e.spec(t, o, w))
		w.snap.Left = left(t.kind, o)
		registers := o.Registers()
		w.snap.Results = make(map[string]lifecycle.Result, len(registers))
		for step, r := range registers {
			w.snap.Results[step] = e.result(&r)
		}
		return w
	}
	w.memo, w.invalid = old.memo, old.invalid
	w.snap.ID, w.snap.Fields, w.snap.Left, w.snap.Results = old.snap.ID, old.snap.Fields, old.snap.Left, old.snap.Results
	if !o.SameFields(old.folded) {
		w.snap.Left = left(t.kind, o)
		w.snap.Fields = t.kind.Effective(e.spec(t, o, w))
	}
	shared := true
	o.RegistersSince(old.folded, func(step string, r *crdt.Register) {
		if shared {
			w.snap.Results, shared = maps.Clone(old.snap.Results), false
		}
		if r == nil {
			delete(w.snap.Results, step)
		} else {
			w.snap.Results[step] = e.result(r)
		}
	})
	return w
}

// spec is what the object runs by. Concurrent edits may merge into a spec that is not
// valid: then the last valid one of those that were merged goes on, until somebody
// settles it.
func (e *engine) spec(t *tracked, o *crdt.Object, w *warm) api.Fields {
	merged := api.Fields(o.Values())
	spec, invalid := lastValid(t.kind, o, merged, o.Heads())
	if w.invalid = invalid; len(invalid) == 0 {
		return merged
	}
	return withLifecycle(spec, merged)
}

// left is, for each step that selects authors, the spec as they left it.
func left(kind *Kind, o *crdt.Object) map[string]api.Fields {
	var all map[string]api.Fields
	for step, authors := range kind.Graph.Listening() {
		heads := o.HeadsBy(authors.Has)
		if len(heads) == 0 {
			continue
		}
		merged, err := o.SpecAt(heads...)
		if err != nil {
			panic(fmt.Sprintf("revs that an object has just named: %v", err))
		}
		spec, _ := lastValid(kind, o, merged, heads)
		put(&all, step, kind.Effective(spec))
	}
	return all
}

// lastValid is a merge of concurrent edits, or, if that is not valid, with what is wrong the
// last of them that is.
func lastValid(kind *Kind, o *crdt.Object, merged api.Fields, heads []crdt.ID) (api.Fields, []api.Problem) {
	if len(heads) < 2 || kind.Validate == nil {
		return merged, nil
	}
	invalid := kind.Validate(merged)
	if len(invalid) == 0 {
		return merged, nil
	}
	slices.SortFunc(heads, func(a, b crdt.ID) int {
		ra, _ := o.Rev(a)
		rb, _ := o.Rev(b)
		return cmp.Or(cmp.Compare(rb.Stamp, ra.Stamp), b.Compare(a))
	})
	for _, head := range heads {
		spec, err := o.SpecAt(head)
		if err == nil && len(kind.Validate(spec)) == 0 {
			return spec, invalid
		}
	}
	return merged, invalid
}

// withLifecycle is a spec of one rev with the lifecycle as it is now.
func withLifecycle(spec map[string]string, now api.Fields) api.Fields {
	fields := api.Fields(spec)
	for path, v := range now {
		if api.Below(path, "lifecycle") {
			fields[path] = v
		}
	}
	return fields
}

// shortID is an object's identity as steps and machines see it.
func shortID(o *crdt.Object) string {
	id := o.ID()
	return hex.EncodeToString(id[:8])
}

func (e *engine) result(r *crdt.Register) lifecycle.Result {
	return lifecycle.Result{
		Attempt: r.Attempt, Phase: lifecycle.Phase(r.Phase), Reads: r.Reads,
		Executor: e.c.nameOf(r.Executor),
		Queued:   fromMillis(r.Queued), Ready: fromMillis(r.Ready),
		Started: fromMillis(r.Started), Finished: fromMillis(r.Finished),
		Outputs: r.Outputs, Code: r.Code, Message: r.Message,
		Failures: int(r.Failures), RetryAt: fromMillis(r.RetryAt),
	}
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}
