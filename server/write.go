package server

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// authorLimit is how long the name of an author may be.
const authorLimit = 64

// author names a person who asks over the local socket.
func author(name string) (string, *api.Error) {
	if name == "" {
		name = "root"
	}
	if len(name) > authorLimit || strings.ContainsFunc(name, foreignToAuthor) {
		return "", api.Errorf(api.SpecInvalid, "author %q: use letters, digits, dots, dashes, underscores and @, at most %d", name, authorLimit)
	}
	return "user:" + name, nil
}

// foreignToAuthor reports whether a rune has no place in an author's name.
func foreignToAuthor(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("._@-", r)
}

// Apply makes a change set.
func (s *Server) Apply(ctx context.Context, req *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	edits, err := editsOf(req)
	if err != nil {
		return nil, wire(err)
	}
	return s.write(ctx, req.GetAuthor(), req.GetMessage(), edits)
}

func (s *Server) write(ctx context.Context, by, message string, edits []peer.Edit) (*apiv1.ApplyResponse, error) {
	if err := s.locals("changing the cluster"); err != nil {
		return nil, err
	}
	who, fault := author(by)
	if fault != nil {
		return nil, wire(fault)
	}
	if err := s.read(ctx, func(c *peer.Core) *api.Error { return sparesMembers(c, edits) }); err != nil {
		return nil, err
	}
	a, err := s.cfg.Loop.Write(ctx, peer.Write{Author: who, Message: message, Edits: edits})
	if err != nil {
		return nil, wire(err)
	}
	if a.Err != nil {
		return nil, wire(a.Err)
	}
	out := &apiv1.ApplyResponse{ChangeSet: a.Set, HeldBy: a.HeldBy, Alone: a.Alone, View: viewTo(a.View)}
	for _, o := range a.Objects {
		out.Outcomes = append(out.Outcomes, outcomeTo(o))
	}
	return out, nil
}

// sparesMembers refuses to delete the object of a machine that belongs to the cluster: the
// machine would go on without one, and take no pods.
func sparesMembers(c *peer.Core, edits []peer.Edit) *api.Error {
	for _, e := range edits {
		deletes := e.Kind == peer.EditDelete || e.Kind == peer.EditSwitch && e.Switch.Target == "deleted"
		if _, member := c.IDOf(e.Key.Name); deletes && e.Key.Kind == "Machine" && member {
			return api.Errorf(api.Invalid, "%s belongs to the cluster, so it can't be deleted; nothing was changed. "+
				"`peer machine drain %s` moves its pods away, `peer machine remove %s` takes it out", e.Key, e.Key.Name, e.Key.Name)
		}
	}
	return nil
}

func outcomeTo(o peer.Outcome) *apiv1.Outcome {
	out := &apiv1.Outcome{Key: keyTo(o.Key), Id: o.ID, Result: o.Result, Rev: o.Shown}
	if !o.Change.IsZero() {
		out.Change = hex.EncodeToString(o.Change[:])
	}
	return out
}

func editsOf(req *apiv1.ApplyRequest) ([]peer.Edit, error) {
	var edits []peer.Edit
	for _, e := range req.GetEdits() {
		edit := peer.Edit{
			Key: keyOf(e.GetKey()), Fields: api.Fields(e.GetFields()), Unset: e.GetUnset(),
			MustExist: e.GetMustExist(), MustNotExist: e.GetMustNotExist(),
		}
		switch e.GetKind() {
		case apiv1.EditKind_EDIT_KIND_PATCH:
			edit.Kind = peer.EditPatch
		case apiv1.EditKind_EDIT_KIND_DELETE:
			edit.Kind = peer.EditDelete
		case apiv1.EditKind_EDIT_KIND_SWITCH:
			mode, err := lifecycle.ParseMode(e.GetSwitchTo().GetMode())
			if err != nil {
				return nil, api.Errorf(api.SpecInvalid, "switch %s: %w", edit.Key, err)
			}
			to := e.GetSwitchTo()
			edit.Kind = peer.EditSwitch
			edit.Switch = peer.Switch{Target: to.GetTarget(), Mode: mode, Skip: to.GetSkip(), Cancel: to.GetCancel()}
		case apiv1.EditKind_EDIT_KIND_APPLY:
		default:
			return nil, api.Errorf(api.SpecInvalid, "%s: the edit has no kind", edit.Key)
		}
		if base := e.GetBaseRev(); base != "" {
			if err := parseID(base, &edit.Base); err != nil {
				return nil, err
			}
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

func parseID(s string, id *crdt.ID) error {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(id) {
		return api.Errorf(api.SpecInvalid, "%q is no change ID", s)
	}
	copy(id[:], raw)
	return nil
}

// Plan tells what a change set would do.
func (s *Server) Plan(ctx context.Context, req *apiv1.ApplyRequest) (*apiv1.PlanResponse, error) {
	edits, err := editsOf(req)
	if err != nil {
		return nil, wire(err)
	}
	who, fault := author(req.GetAuthor())
	if fault != nil {
		return nil, wire(fault)
	}
	out := &apiv1.PlanResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		plans, err := c.Plan(who, edits)
		if err != nil {
			return err
		}
		for _, p := range plans {
			out.Objects = append(out.Objects, planTo(c, p))
		}
		out.View = view(c)
		return nil
	})
}

func planTo(c *peer.Core, p peer.ObjectPlan) *apiv1.ObjectPlan {
	out := &apiv1.ObjectPlan{Key: keyTo(p.Outcome.Key), Result: p.Outcome.Result, FromMachine: p.From, ToMachine: p.To}
	for _, d := range p.Diff {
		out.Diff = append(out.Diff, &apiv1.FieldDiff{Path: d.Path, Old: d.Old, New: d.New})
	}
	for _, st := range p.Steps {
		out.Steps = append(out.Steps, &apiv1.PlanStep{
			Step: st.Step, Loop: st.Loop, Action: st.Action, Machine: st.Machine, Because: st.Because, Blocked: st.Blocked,
		})
	}
	if seen, ok := c.See(p.Outcome.Key); ok {
		out.Address = seen.Object.Status().String("status.address")
	}
	out.Gap, out.Concerns = gapOf(p), p.Concerns
	return out
}

// gapOf says what the edit means for whoever uses the object.
func gapOf(p peer.ObjectPlan) string {
	actions := map[string]string{}
	for _, s := range p.Steps {
		if actions[s.Step] == "" || s.Action == "undo" {
			actions[s.Step] = s.Action
		}
		if s.Blocked != "" {
			return "it would wait: " + s.Blocked
		}
	}
	switch {
	case p.Outcome.Key.Kind != "Pod" || p.Outcome.Result == "unchanged":
		return ""
	case p.Outcome.Result == "deleted":
		return "it is taken down"
	case p.Outcome.Result == "created":
		return "it starts on " + p.To
	case p.From != p.To:
		return "it moves from " + p.From + " to " + p.To + ": it is stopped there before it starts here, and keeps its address"
	case actions["container"] == "rerun":
		return "the containers that changed restart in place; the successor is created before the old one stops"
	case strings.Contains(actions["container"], "undo"):
		return "its containers are stopped"
	}
	return "nothing that runs is touched"
}

// Rollback writes an old spec again.
func (s *Server) Rollback(ctx context.Context, req *apiv1.RollbackRequest) (*apiv1.ApplyResponse, error) {
	var edits []peer.Edit
	message := req.GetMessage()
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		var fault *api.Error
		if set := req.GetChangeSet(); set != "" {
			edits, fault = undoSet(c, set)
			message = orElse(message, "roll back change set "+set)
			return fault
		}
		var edit peer.Edit
		var to string
		edit, to, fault = undoOne(c, keyOf(req.GetKey()), req.GetTo())
		edits = []peer.Edit{edit}
		message = orElse(message, "roll back to rev "+to)
		return fault
	})
	if err != nil {
		return nil, err
	}
	return s.write(ctx, req.GetAuthor(), message, edits)
}

func orElse(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// undoOne finds the spec of an older rev of the object; without a name, the one
// before the current.
func undoOne(c *peer.Core, key api.Key, to string) (peer.Edit, string, *api.Error) {
	o, fault := newest(c, key)
	if fault != nil {
		return peer.Edit{}, "", fault
	}
	revs, fault := revBefore(o)
	if to != "" {
		var err error
		if revs, err = o.ParseRev(to); err != nil {
			return peer.Edit{}, "", revFault(key, o, to, err)
		}
	} else if fault != nil {
		return peer.Edit{}, "", fault
	}
	spec, err := o.SpecAt(revs...)
	if err != nil {
		return peer.Edit{}, "", api.Errorf(api.NotFound, "%s: %w", key, err)
	}
	return peer.Edit{Kind: peer.EditApply, Key: key, Fields: spec}, o.RevName(revs[0]), nil
}

// revFault is what is wrong with the name of a rev. Only one that several have is ambiguous.
func revFault(key api.Key, o *crdt.Object, name string, err error) *api.Error {
	digits, _, _ := strings.Cut(name, ".")
	number, fault := strconv.ParseUint(digits, 10, 64)
	if fault != nil {
		return api.Errorf(api.Invalid, "%s: %w", key, err)
	}
	for _, r := range o.Revs() {
		if r.IsRev && r.Number == number {
			return api.Errorf(api.AmbiguousRev, "%s: %w", key, err)
		}
	}
	return api.Errorf(api.NotFound, "%s: %w; `peer history %s` lists the revs", key, err, key)
}

// revBefore is the rev that the current one was made from. Of a deleted object it is
// the last one: rolling back a deletion brings that spec back.
func revBefore(o *crdt.Object) ([]crdt.ID, *api.Error) {
	want := o.Number()
	if !o.Deleted() {
		want--
	}
	var found []crdt.ID
	for _, r := range o.Revs() {
		if r.IsRev && r.Refused == "" && r.Number == want {
			found = append(found, r.Change)
		}
	}
	switch len(found) {
	case 0:
		return nil, api.Errorf(api.NotFound, "%s has no rev before %s", api.Key(o.Ref()), o.Current())
	case 1:
		return found, nil
	}
	names := make([]string, len(found))
	for i, id := range found {
		names[i] = o.RevName(id)
	}
	return nil, api.Errorf(api.AmbiguousRev, "%s has several revs %d; name one with --to: %s", api.Key(o.Ref()), want, strings.Join(names, ", "))
}

// newest is the latest life of a name, also a deleted one: a rollback undeletes.
func newest(c *peer.Core, key api.Key) (*crdt.Object, *api.Error) {
	if seen, ok := c.See(key); ok && seen.Folded != nil {
		return seen.Folded, nil
	}
	lives := c.Incarnations(key)
	if len(lives) == 0 {
		return nil, noSuch(c, key)
	}
	return lives[len(lives)-1], nil
}

// undoSet takes a whole change set back: each object returns to what it was before.
func undoSet(c *peer.Core, set string) ([]peer.Edit, *api.Error) {
	var edits []peer.Edit
	for _, key := range c.Keys() {
		for _, o := range c.Incarnations(key) {
			for _, rev := range o.Revs() {
				if hex.EncodeToString(rev.Set[:6]) != set {
					continue
				}
				edit, fault := undoRev(key, o, rev)
				if fault != nil {
					return nil, fault
				}
				edits = append(edits, edit)
			}
		}
	}
	if len(edits) == 0 {
		return nil, api.Errorf(api.NotFound, "there is no change set %q; `peer history` lists them", set)
	}
	return edits, nil
}

func undoRev(key api.Key, o *crdt.Object, rev crdt.Rev) (peer.Edit, *api.Error) {
	if len(rev.Parents) == 0 {
		return peer.Edit{Kind: peer.EditDelete, Key: key}, nil
	}
	spec, err := o.SpecAt(rev.Parents...)
	if err != nil {
		return peer.Edit{}, api.Errorf(api.NotFound, "%s: %w", key, err)
	}
	return peer.Edit{Kind: peer.EditApply, Key: key, Fields: spec}, nil
}
