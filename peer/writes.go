package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// ackTimeout is how long an answer waits for a second disk before it says that the
// change is on this one only.
const ackTimeout = 3 * time.Second

// maxPending bounds the writes that wait for a second disk.
const maxPending = 10_000

// writes turns what people ask for into changes, and answers when they are durable.
type writes struct {
	c       *Core
	pending []pendingWrite
}

// pendingWrite is synced here (once the turn's commit is) and waits for another disk.
type pendingWrite struct {
	answer   Answer
	seq      uint64
	deadline time.Time
}

func newWrites(c *Core) *writes { return &writes{c: c} }

// begin checks a whole change set, then writes all of it.
func (w *writes) begin(req Write) {
	answer := Answer{Request: req.Request}
	if len(w.pending) >= maxPending {
		answer.Err = api.Errorf(api.TooLarge, "%d writes already wait for a second disk; try again when the other machines are in reach", len(w.pending))
		w.c.out.Answers = append(w.c.out.Answers, answer)
		return
	}
	set := w.newSet(req)
	edits := w.expand(req.Edits)
	next, fault := w.c.engine.preview(edits)
	if fault != nil {
		answer.Err = fault
		w.c.out.Answers = append(w.c.out.Answers, answer)
		return
	}
	changes := make([]crdt.Change, 0, len(edits))
	var losers []crdt.Change
	answer.Objects = make([]Outcome, 0, len(edits))
	for _, edit := range edits {
		ch, outcome, err := w.prepare(next, edit)
		if err != nil {
			answer.Err, answer.Objects = err, nil
			w.c.out.Answers = append(w.c.out.Answers, answer)
			return
		}
		ch.Author, ch.Message, ch.Set = req.Author, req.Message, set
		changes = append(changes, ch)
		if others := w.losers(edit, ch); len(others) > 0 {
			losers = append(losers, others...)
			if outcome.Result == "unchanged" {
				outcome.Result = "changed"
			}
		}
		answer.Objects = append(answer.Objects, outcome)
	}
	for _, ch := range slices.Concat(losers, changes) {
		if answer.Err = legible(&ch); answer.Err != nil {
			answer.Set, answer.Objects = "", nil
			w.c.out.Answers = append(w.c.out.Answers, answer)
			return
		}
	}
	for _, ch := range losers { // first, so that no other has the name meanwhile
		w.c.journal.write(ch)
		answer.Set = hex.EncodeToString(set[:6])
	}
	w.commit(set, changes, answer)
}

func (w *writes) newSet(req Write) (set [16]byte) {
	b := append(append(make([]byte, 0, 128), req.Author...), ' ')
	b = append(strconv.AppendInt(b, w.c.now.UnixMilli(), 10), ' ')
	sum := sha256.Sum256(strconv.AppendUint(b, w.c.rand(), 16))
	copy(set[:], sum[:])
	return set
}

// commit writes the changes and has the answer wait for a second disk.
func (w *writes) commit(set [16]byte, changes []crdt.Change, answer Answer) {
	for i, ch := range changes {
		o := &answer.Objects[i]
		if len(ch.Ops) > 0 {
			answer.Set = hex.EncodeToString(set[:6])
			o.Change = w.c.journal.write(ch)
		}
		if obj, ok := w.c.journal.state.Object(ch.Object); ok {
			o.show(obj)
		}
	}
	if answer.Set == "" {
		w.c.out.Answers = append(w.c.out.Answers, answer)
		return
	}
	w.pending = append(w.pending, pendingWrite{answer: answer, seq: w.c.journal.ownSeq(), deadline: w.c.now.Add(ackTimeout)})
}

// show tells which rev an edit has made, or left.
func (o *Outcome) show(obj *crdt.Object) {
	if !o.Change.IsZero() {
		o.ID, o.Rev = shortID(obj), obj.Number()
	}
	if obj.IsRev(o.Change) {
		o.Shown = obj.RevName(o.Change)
	} else { // a restart or a switch makes none
		o.Shown = obj.Current()
	}
}

// prepare turns one edit into a change without ops, or with the ops that it needs.
func (w *writes) prepare(next preview, edit Edit) (crdt.Change, Outcome, *api.Error) {
	ref := crdt.Ref(edit.Key)
	outcome := Outcome{Key: edit.Key, Result: "unchanged"}
	old, exists := w.live(ref)
	if fault := w.known(next, edit, exists); fault != nil {
		return crdt.Change{}, outcome, fault
	}
	kind := next.kinds[edit.Key.Kind].kind
	if edit.Kind == EditSwitch {
		return w.prepareSwitch(next, edit)
	}
	if err := guard(edit, old, exists); err != nil {
		return crdt.Change{}, outcome, err
	}
	ch := crdt.Change{Object: ref}
	current := api.Fields{}
	if exists {
		ch.Incarnation, ch.Parents = old.ID(), old.Heads()
		current = api.Fields(old.Values())
		outcome.ID, outcome.Rev = shortID(old), old.Number()
	}
	if err := ownedByParent(edit, old, exists, current); err != nil {
		return ch, outcome, err
	}
	if edit.Kind == EditDelete {
		ch.Ops, outcome.Result = []crdt.Op{{Kind: crdt.OpDelete}}, "deleted"
		return ch, outcome, nil
	}
	edit, err := w.plainSwitch(next, edit, current)
	if err != nil {
		return ch, outcome, err
	}
	edits := editsOf(edit, current)
	if exists {
		edits = append(edits, settling(edit, old, current, edits)...)
	}
	if err := w.check(kind, edit.Key, current, edits); err != nil {
		return ch, outcome, err
	}
	if !exists {
		ch.Ops, outcome.Result = append(ch.Ops, crdt.Op{Kind: crdt.OpCreate}), "created"
	} else if len(edits) > 0 {
		outcome.Result = "changed"
	}
	ch.Ops = append(ch.Ops, opsOf(edits)...)
	return ch, outcome, nil
}

// known refuses objects of kinds that there are not, and new ones of a Kind that was
// deleted.
func (w *writes) known(next preview, edit Edit, exists bool) *api.Error {
	if _, ok := next.kinds[edit.Key.Kind]; !ok {
		return api.Errorf(api.NotFound, "%s", next.catalog.Unknown(edit.Key.Kind))
	}
	if problems := next.catalog.CheckKey(edit.Key); len(problems) > 0 {
		return &api.Error{Code: api.SpecInvalid, Message: "the name is not valid; nothing was changed", Problems: problems}
	}
	k, _ := next.catalog.KindByName(edit.Key.Kind)
	kind := api.KindObject(edit.Key.Kind)
	if k.Own && !exists && edit.Kind == EditApply && !w.c.engine.alive(k.Name) && !next.writes(kind) {
		return api.Errorf(api.NotFound, "%s was deleted, so that there are no new objects of the kind; apply the Kind again first", kind)
	}
	return nil
}

// live returns the object unless it is being deleted: its name is free then.
func (w *writes) live(ref crdt.Ref) (*crdt.Object, bool) {
	o, ok := w.c.journal.state.Object(ref)
	if !ok || o.Deleted() {
		return nil, false
	}
	return o, true
}

func guard(edit Edit, old *crdt.Object, exists bool) *api.Error {
	switch {
	case edit.MustNotExist && exists:
		return api.Errorf(api.AlreadyExists, "%s exists already; change it with `peer apply` or choose another name", edit.Key)
	case (edit.MustExist || edit.Kind != EditApply) && !exists:
		return api.Errorf(api.NotFound, "%s does not exist; list what does with `peer get`", edit.Key)
	case !edit.Base.IsZero() && exists && !slices.Contains(old.Heads(), edit.Base):
		return api.Errorf(api.Conflict, "%s was changed by somebody else meanwhile; look at `peer history %s` and edit it again", edit.Key, edit.Key)
	}
	return nil
}

// ownedByParent refuses to change the spec of a child, or to delete it: its parent's
// loop owns it, and would put it back. Where it is to be in its lifecycle is people's
// business.
func ownedByParent(edit Edit, old *crdt.Object, exists bool, current api.Fields) *api.Error {
	if !exists || api.SpecOwner(edit.Key.Kind, old.Creator()) == api.People {
		return nil
	}
	touches := func(e api.Edit) bool { return api.Below(e.Path, "spec") }
	if edit.Kind != EditDelete && !slices.ContainsFunc(editsOf(edit, current), touches) {
		return nil
	}
	parent := current.String(parentObject)
	return api.Errorf(api.WrongOwner, "%s belongs to %s, which owns its spec; change that one, as with `peer edit %s`", edit.Key, parent, parent)
}

func editsOf(edit Edit, current api.Fields) []api.Edit {
	if edit.Kind == EditApply {
		return api.EditsForApply(current, edit.Fields)
	}
	wanted := current.Clone()
	for path, v := range edit.Fields {
		wanted[path] = v
	}
	for _, path := range edit.Unset {
		delete(wanted, path)
	}
	return api.Diff(current, wanted)
}

// check validates what the object would become, and who owns what it would change.
func (w *writes) check(kind Kind, key api.Key, current api.Fields, edits []api.Edit) *api.Error {
	after := current.Clone()
	for _, e := range edits {
		if owner := api.OwnerOf(key.Kind, e.Path); owner != api.People {
			return api.Errorf(api.WrongOwner, "%s: %s belongs to loop %q and can't be set by people; `peer explain %s.%s` tells what it is computed from", key, e.Path, owner, key.Kind, e.Path)
		}
		if e.New == "" {
			delete(after, e.Path)
		} else {
			after[e.Path] = e.New
		}
	}
	problems := kind.Validate(after)
	if len(problems) > 0 {
		return &api.Error{Code: api.SpecInvalid, Message: fmt.Sprintf("%s is not valid; nothing was changed", key), Problems: problems}
	}
	return nil
}

func opsOf(edits []api.Edit) []crdt.Op {
	var ops []crdt.Op
	for _, e := range edits {
		if e.New == "" {
			ops = append(ops, crdt.Op{Kind: crdt.OpUnset, Path: e.Path})
		} else {
			ops = append(ops, crdt.Op{Kind: crdt.OpSet, Path: e.Path, Value: e.New})
		}
	}
	return ops
}

// settle answers the writes that another machine holds, or that waited long enough.
func (w *writes) settle() {
	if len(w.pending) == 0 {
		return
	}
	alone := len(w.c.trust.list) < 2
	cursor := crdt.Heads{w.c.journal.actor: w.c.journal.log.Head(w.c.journal.actor)}
	w.c.out.Answers = slices.Grow(w.c.out.Answers, len(w.pending))
	still := w.pending[:0]
	for _, p := range w.pending {
		holder, held := w.c.replica.holder(p.seq)
		switch {
		case held:
			p.answer.HeldBy = w.c.nameOf(holder)
		case alone:
			p.answer.Alone = true
		case w.c.now.Before(p.deadline):
			still = append(still, p)
			continue
		}
		p.answer.Cursor = cursor
		w.c.out.Answers = append(w.c.out.Answers, p.answer)
	}
	clear(w.pending[len(still):])
	w.pending = still
}

func (w *writes) nextWake() time.Time {
	var next time.Time
	for _, p := range w.pending {
		next = earliest(next, p.deadline)
	}
	return next
}

// asError gives an error a code, unless it has one.
func asError(err error) *api.Error {
	var known *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	}
	if code := identity.CodeOf(err); code != "" {
		return api.Errorf(code, "%w", err)
	}
	return api.Errorf(api.Internal, "%w", err)
}
