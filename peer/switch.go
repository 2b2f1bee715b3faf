package peer

import (
	"fmt"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// The fields of an object's job: where it is to be, where it was last at rest, and what
// another switch may do to this one.
const (
	jobTarget = "lifecycle.target"
	jobFrom   = "lifecycle.from"
	jobMode   = "lifecycle.mode"
	jobSkip   = "lifecycle.skip"
)

// Switch is what an edit of the kind [EditSwitch] asks for.
type Switch struct {
	// Target is a goal of the object's lifecycle, or [lifecycle.Deleted].
	Target string
	Mode   lifecycle.Mode
	// Skip lists the steps that are passed over on the way. What was passed over before
	// is not any more.
	Skip []string
	// Cancel gives up the switch that is under way; the object returns to where it was.
	Cancel bool
}

// expand turns the deletion of a live object that passes over steps into its two parts.
func (w *writes) expand(edits []Edit) []Edit {
	if !slices.ContainsFunc(edits, func(e Edit) bool { return e.Kind == EditSwitch }) {
		return edits
	}
	var all []Edit
	for _, edit := range edits {
		_, live := w.live(crdt.Ref(edit.Key))
		if edit.Kind != EditSwitch || edit.Switch.Cancel || edit.Switch.Target != lifecycle.Deleted || !live {
			all = append(all, edit)
			continue
		}
		if len(edit.Switch.Skip) > 0 {
			all = append(all, Edit{Kind: EditPatch, Key: edit.Key, Fields: api.Fields{jobSkip: api.List(edit.Switch.Skip...)}})
		}
		all = append(all, Edit{Kind: EditDelete, Key: edit.Key})
	}
	return all
}

// prepareSwitch turns a switch into a change of the object's job, by the table of
// [lifecycle.Switch].
func (w *writes) prepareSwitch(next preview, edit Edit) (crdt.Change, Outcome, *api.Error) {
	ch, outcome := crdt.Change{Object: crdt.Ref(edit.Key)}, Outcome{Key: edit.Key, Result: "unchanged"}
	o, ok := w.c.journal.state.Object(ch.Object)
	seen, there := w.c.See(edit.Key)
	if !ok || !there {
		return ch, outcome, api.Errorf(api.NotFound, "%s does not exist; list what does with `peer get`", edit.Key)
	}
	current := api.Fields(o.Values())
	ch.Incarnation, ch.Parents = o.ID(), o.Heads()
	outcome.ID, outcome.Rev = shortID(o), o.Number()
	kind := next.kinds[edit.Key.Kind].kind
	to, fault := w.nextJob(kind, edit, jobOf(seen, current), seen.Eval.Verdict == lifecycle.Converged)
	if fault != nil {
		return ch, outcome, fault
	}
	wanted := current.Clone()
	to.write(next, edit.Key.Kind, wanted)
	if _, skips := next.catalog.FieldOf(edit.Key.Kind, jobSkip); skips || len(edit.Switch.Skip) > 0 {
		setOr(wanted, jobSkip, api.List(edit.Switch.Skip...), len(edit.Switch.Skip) > 0)
	}
	edits := api.Diff(current, wanted)
	if err := w.check(kind, edit.Key, current, edits); err != nil {
		return ch, outcome, err
	}
	if ch.Ops = opsOf(edits); len(ch.Ops) > 0 {
		outcome.Result = "changed"
	}
	return ch, outcome, nil
}

// job is a switch as an object's fields tell it.
type job struct{ lifecycle.Job }

func jobOf(seen Seen, current api.Fields) job {
	mode, err := lifecycle.ParseMode(current.String(jobMode))
	if err != nil {
		mode = lifecycle.ModeReplace
	}
	return job{lifecycle.Job{Goal: seen.Eval.Goal, From: current.String(jobFrom), Mode: mode}}
}

// nextJob is the job after a switch, or says why there is none.
func (w *writes) nextJob(kind Kind, edit Edit, now job, reached bool) (job, *api.Error) {
	if edit.Switch.Cancel {
		next, outcome := lifecycle.Cancel(now.Job, reached)
		if outcome == lifecycle.OutcomeRefused {
			return now, api.Errorf(api.SwitchRefused, "%s is being deleted, and what was taken down is gone: that can't be cancelled; create it anew once it is gone", edit.Key)
		}
		return job{next}, nil
	}
	goal := edit.Switch.Target
	if goals := kind.Graph.Goals(); goal != lifecycle.Deleted && !slices.Contains(goals, goal) {
		return now, api.Errorf(api.SpecInvalid, "%s has no target %q; its targets are %s", edit.Key, goal, listed(append(goals, lifecycle.Deleted)))
	}
	next, outcome := lifecycle.Switch(now.Job, reached, goal, edit.Switch.Mode)
	if outcome == lifecycle.OutcomeRefused {
		return now, &api.Error{Code: api.SwitchRefused, Message: lifecycle.Refusal(edit.Key, now.Job, goal)}
	}
	return job{next}, nil
}

// write puts the job into an object's fields. What is as it would be without them is left
// out, so that an object that was only ever ready has none.
func (j job) write(next preview, kind string, f api.Fields) {
	if j.Goal == lifecycle.Deleted {
		return // that is no field, but the end of the incarnation
	}
	setOr(f, jobTarget, api.Str(j.Goal), j.Goal != defaultGoal(next.kinds[kind].kind))
	if _, ok := next.catalog.FieldOf(kind, jobMode); ok {
		setOr(f, jobMode, api.Str(string(j.Mode)), j.Mode == lifecycle.ModeIrreversible)
		setOr(f, jobFrom, api.Str(j.From), j.From != "" && j.From != j.Goal)
	}
}

func defaultGoal(kind Kind) string { return kind.Goal(kind.Effective(api.Fields{})) }

// setOr sets a field, or removes it.
func setOr(f api.Fields, path, value string, set bool) {
	if set {
		f[path] = value
	} else {
		delete(f, path)
	}
}

// plainSwitch has an edit that writes a target beside other fields follow the table too.
func (w *writes) plainSwitch(next preview, edit Edit, current api.Fields) (Edit, *api.Error) {
	target, set := edit.Fields[jobTarget]
	unset := slices.Contains(edit.Unset, jobTarget)
	if edit.Kind != EditPatch || !set && !unset {
		return edit, nil
	}
	seen, there := w.c.See(edit.Key)
	if !there {
		return edit, nil
	}
	goal := unquote(target)
	if unset {
		goal = defaultGoal(next.kinds[edit.Key.Kind].kind)
	}
	edit.Switch = Switch{Target: goal, Mode: lifecycle.ModeReplace}
	to, fault := w.nextJob(next.kinds[edit.Key.Kind].kind, edit, jobOf(seen, current), seen.Eval.Verdict == lifecycle.Converged)
	if fault != nil {
		return edit, fault
	}
	f := current.Clone()
	to.write(next, edit.Key.Kind, f)
	edit.Fields = edit.Fields.Clone()
	for _, path := range []string{jobFrom, jobMode} {
		if v, ok := f[path]; ok {
			edit.Fields[path] = v
		} else if current.Has(path) {
			edit.Unset = append(edit.Unset[:len(edit.Unset):len(edit.Unset)], path)
		}
	}
	return edit, nil
}

func listed(words []string) string {
	text := ""
	for i, w := range words {
		switch {
		case i == 0:
			text = w
		case i == len(words)-1:
			text = fmt.Sprintf("%s and %s", text, w)
		default:
			text = fmt.Sprintf("%s, %s", text, w)
		}
	}
	return text
}
