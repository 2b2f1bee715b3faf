package peer

import (
	"context"
	"errors"
	"maps"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// reportAfter is how long a step must last before its start is replicated: short
// steps write their end only.
const reportAfter = 250 * time.Millisecond

// action is a step that runs outside the core.
type action struct {
	id       uint64
	t        *tracked
	objectID string
	step     *lifecycle.Step
	undo     bool
	stray    bool
	canceled bool
	reported bool
	reads    [32]byte
	inputs   lifecycle.Inputs
	started  time.Time
}

// run starts a step here: a decision at once, an action outside.
func (e *engine) run(t *tracked, snap *lifecycle.Object, run lifecycle.Run, v *view) {
	if e.awaitsSweep(t, run) {
		return
	}
	if run.Feedback {
		put(&t.feedback, run.Step.Name, t.feedback[run.Step.Name].Note(run.Generation, e.c.now))
	}
	delete(t.again, run.Step.Name)
	switch {
	case run.Undo && e.disowns(t, run.Step):
		e.disown(t, run)
	case run.Step.Manage != nil:
		e.manage(t, run, v)
	case run.Undo && run.Step.Undo == nil: // it made nothing outside: its outputs are forgotten
		e.write(t, run.Step, crdt.Register{Phase: crdt.PhaseUndone, Reads: run.Reads})
	case run.Step.Decide != nil:
		e.decide(t, snap, run, v)
	default:
		e.act(t, run.Step, run)
	}
}

// decide makes a decision inside the core. Its reads are hashed with its own
// outputs in place, since some of what it reads derives from what it decided.
func (e *engine) decide(t *tracked, snap *lifecycle.Object, run lifecycle.Run, v *view) {
	out, err := run.Step.Decide(v, run.Inputs)
	reg := e.outcome(t, run.Step, run.Reads, out, err)
	if err == nil {
		after := *t.snap()
		after.Results = maps.Clone(snap.Results)
		after.Results[run.Step.Name] = lifecycle.Result{Outputs: reg.Outputs}
		if t.kind.Derive != nil {
			after.Derived = t.kind.Derive(&after, v)
		}
		reg.Reads = t.kind.Graph.ReadsHash(&after, run.Step.Name, e.machineOf(t.ref, &after))
	}
	if run.Step.Reserves && err == nil {
		e.hold(t, out)
	}
	e.write(t, run.Step, reg)
}

// outcome is the register of a finished attempt.
func (e *engine) outcome(t *tracked, step *lifecycle.Step, reads [32]byte, out lifecycle.Outputs, err error) crdt.Register {
	old := t.snap().Results[step.Name]
	if fault := tooLarge(step, out, err); fault != nil {
		err = fault
	}
	if err == nil {
		delete(t.tries, step.Name)
		return crdt.Register{Phase: crdt.PhaseDone, Reads: reads, Outputs: out, Failures: uint32(old.Failures)}
	}
	if pending := (*lifecycle.Pending)(nil); errors.As(err, &pending) {
		delete(t.tries, step.Name)
		return crdt.Register{Phase: crdt.PhaseStarted, Reads: reads, Outputs: out, Message: pending.Message}
	}
	reg := crdt.Register{Phase: crdt.PhaseFailed, Reads: reads, Outputs: old.Outputs, Failures: uint32(old.Failures) + 1}
	reg.Code, reg.Message = api.StepFailed, err.Error()
	var known *lifecycle.Error
	wait := false
	if errors.As(err, &known) {
		reg.Code, wait = known.Code, known.Wait
		if known.Outputs != nil {
			reg.Outputs = known.Outputs
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		reg.Code = api.TimedOut
	}
	if wait {
		reg.Failures = 0
		e.blocked(t, step)
		return reg
	}
	reg.RetryAt = e.c.now.Add(backoff(step.Retry, int(reg.Failures), e.c.rand())).UnixMilli()
	return reg
}

// backoff is the step's delay, less up to a fifth.
func backoff(r lifecycle.Retry, failures int, random uint64) time.Duration {
	d := r.Delay(failures)
	return d - time.Duration(random%uint64(d/5+1))
}

// blocked notes a try of a step that waits for others.
func (e *engine) blocked(t *tracked, step *lifecycle.Step) {
	old := t.tries[step.Name]
	if old == nil {
		old = &try{}
		put(&t.tries, step.Name, old)
	}
	old.count++
	old.woken = false
	e.waits = append(e.waits, step)
	old.next = e.c.now.Add(backoff(lifecycle.Retry{Base: 100 * time.Millisecond, Max: 30 * time.Second}, old.count, e.c.rand()))
}

// write appends a register, if anything in it is new.
func (e *engine) write(t *tracked, step *lifecycle.Step, reg crdt.Register) {
	old := t.snap().Results[step.Name]
	reg.Executor = e.c.self.ID
	fitText(&reg)
	same := lifecycle.Phase(reg.Phase) == old.Phase && reg.Reads == old.Reads && reg.Code == old.Code &&
		reg.Message == old.Message && maps.Equal(reg.Outputs, old.Outputs) &&
		(step.Where != lifecycle.OnMachine || old.Executor == e.c.self.Name) && reg.Phase != crdt.PhaseFailed
	blocked := reg.Phase == crdt.PhaseFailed && reg.RetryAt == 0 && old.Phase == lifecycle.PhaseFailed &&
		reg.Message == old.Message && reg.Reads == old.Reads && maps.Equal(reg.Outputs, old.Outputs)
	if same || blocked {
		e.mark(t.ref)
		return
	}
	if old.Phase == lifecycle.PhaseStarted && old.Executor == e.c.self.Name && old.Reads == reg.Reads {
		reg.Attempt = old.Attempt // the end of what this machine reported as started
	}
	now := e.c.now.UnixMilli()
	reg.Queued = now
	if q, ok := t.queued[step.Name]; ok {
		reg.Queued = q.UnixMilli()
	}
	if reg.Started == 0 {
		reg.Started = now
	}
	reg.Ready = reg.Started
	if reg.Phase != crdt.PhaseStarted {
		reg.Finished = now
	}
	e.append(t, step.Name, reg)
}

// append writes a register as the loop that owns the step, as its next attempt unless it
// says which. A refused result counts as absent, but has to be outnumbered all the same.
func (e *engine) append(t *tracked, step string, reg crdt.Register) {
	o, ok := e.c.journal.state.Object(t.ref)
	if !ok {
		return
	}
	delete(t.queued, step)
	e.appendTo(o, t, step, reg)
}

// appendTo is append for a life of the name that need not have it.
func (e *engine) appendTo(o *crdt.Object, t *tracked, step string, reg crdt.Register) {
	if reg.Attempt == 0 {
		reg.Attempt = o.NextAttempt(step)
	}
	e.entries.note(t.ref, t.kind.Graph.StepOwner(step), e.c.now)
	e.c.journal.write(crdt.Change{
		Object: t.ref, Incarnation: o.ID(), Author: "loop:" + t.kind.Graph.StepOwner(step),
		Ops: []crdt.Op{{Kind: crdt.OpResult, Path: step, Register: &reg}},
	})
}

// act starts an action. What it may leave behind is noted on disk first.
func (e *engine) act(t *tracked, step *lifecycle.Step, run lifecycle.Run) {
	if _, busy := t.running[step.Name]; busy {
		return
	}
	if run.Stray && !e.strayDue(t, step) {
		return
	}
	e.lastID++
	a := &action{
		id: e.lastID, t: t, objectID: t.snap().ID, step: step, undo: run.Undo, stray: run.Stray,
		reads: run.Reads, inputs: run.Inputs, started: e.c.now,
	}
	if run.Undo {
		a.inputs = e.effects.inputs(t.snap().ID, step.Name, run.Inputs)
	} else if step.Undo != nil {
		e.effects.note(e.c, t.ref, t.snap().ID, step.Name, run.Inputs)
	}
	e.launch(a)
}

func (e *engine) launch(a *action) {
	if a.step.Every > 0 && !a.undo {
		put(&a.t.looked, a.step.Name, e.c.now)
	}
	put(&a.t.running, a.step.Name, a)
	e.actions[a.id] = a
	e.c.out.Start = append(e.c.out.Start, Action{ID: a.id, Step: a.step, Undo: a.undo, Inputs: a.inputs, Timeout: a.step.Timeout})
}

func (e *engine) cancel(t *tracked, step string) {
	if a, ok := t.running[step]; ok && !a.canceled {
		a.canceled = true
		e.c.out.Cancel = append(e.c.out.Cancel, a.id)
	}
}

// startReport replicates the start of steps that last, and tells when the next is due.
func (e *engine) startReport(t *tracked) time.Time {
	var next time.Time
	for _, step := range sortedKeys(t.running) {
		a := t.running[step]
		if a.reported || a.undo || a.stray || a.objectID != t.snap().ID {
			continue
		}
		if due := a.started.Add(reportAfter); due.After(e.c.now) {
			next = earliest(next, due)
			continue
		}
		a.reported = true
		old := t.snap().Results[step]
		if old.Phase == lifecycle.PhaseDone && old.Reads == a.reads && old.Executor == e.c.self.Name {
			continue // it only looks at what is there
		}
		e.write(t, a.step, crdt.Register{
			Phase: crdt.PhaseStarted, Reads: a.reads, Outputs: old.Outputs, Started: a.started.UnixMilli(), Failures: uint32(old.Failures),
		})
	}
	return next
}

// actionDone takes the end of an action.
func (e *engine) actionDone(d ActionDone) {
	a, ok := e.actions[d.Action]
	if !ok {
		return
	}
	delete(e.actions, d.Action)
	t := a.t
	delete(t.running, a.step.Name)
	e.mark(t.ref)
	same := t.snap() != nil && t.snap().ID == a.objectID
	switch {
	case a.undo && a.canceled && d.Err != nil: // a person passed it over
	case a.undo:
		e.undone(a, d.Err, same)
	case !same || (a.canceled && d.Err != nil):
	default:
		e.finish(a, d)
		put(&t.adopted, a.step.Name, resultOf(t.snap(), a.step.Name))
	}
}

func (e *engine) finish(a *action, d ActionDone) {
	if a.step.Where == lifecycle.OnMachine && a.t.machine() != e.c.self.Name {
		return // it belongs elsewhere by now; what was made is taken back
	}
	if owns := (*lifecycle.Owns)(nil); errors.As(d.Err, &owns) {
		if d.Err = owns.Err; a.step.Children != "" {
			if fault := e.setChildren(a.t, a.step, owns.Children); fault != nil {
				d.Err = fault
			}
		}
	}
	reg := e.outcome(a.t, a.step, a.reads, d.Outputs, d.Err)
	reg.Started = a.started.UnixMilli()
	e.write(a.t, a.step, reg)
}

// disowns reports whether taking a step back begins with its children.
func (e *engine) disowns(t *tracked, step *lifecycle.Step) bool {
	if step.Manage != nil || step.Children == "" {
		return step.Manage != nil
	}
	return len(e.childrenOf(api.Key(t.ref), t.snap().ID, t.kind.Graph.StepOwner(step.Name))) > 0
}

func (e *engine) undone(a *action, err error, same bool) {
	if err == nil {
		e.effects.forget(e.c, a.objectID, a.step.Name)
		delete(a.t.adopted, a.step.Name)
		if same && !a.stray {
			e.write(a.t, a.step, crdt.Register{Phase: crdt.PhaseUndone, Reads: a.reads, Started: a.started.UnixMilli()})
		} else {
			e.disclaim(a.t, a.objectID, a.step)
		}
		return
	}
	if !same || a.stray {
		e.blocked(a.t, a.step)
		return
	}
	reg := e.outcome(a.t, a.step, a.reads, nil, err)
	reg.Code = lifecycle.UndoFailed
	if reg.RetryAt == 0 { // nothing that it consults will tell when taking it back works
		reg.RetryAt = e.c.now.Add(backoff(a.step.Retry, int(reg.Failures)+1, e.c.rand())).UnixMilli()
	}
	reg.Started = a.started.UnixMilli()
	e.write(a.t, a.step, reg)
}

// lost marks a step as failed because what it made is gone.
func (e *engine) lost(l Lost) {
	t, ok := e.objects[crdt.Ref(l.Key)]
	if !ok || t.snap() == nil || t.snap().ID != l.ID {
		return
	}
	r := t.snap().Results[l.Step]
	step, known := t.kind.Graph.Step(l.Step)
	if !known || r.Executor != e.c.self.Name || r.Phase != lifecycle.PhaseDone || l.At.Before(r.Started) {
		return
	}
	if _, busy := t.running[l.Step]; busy {
		return // the attempt under way will find out
	}
	failures := r.Failures
	if l.At.Sub(r.Finished) > calm {
		failures = 0
	}
	reg := crdt.Register{
		Phase: crdt.PhaseFailed, Reads: r.Reads, Outputs: r.Outputs, Code: l.Code, Message: l.Message,
		Failures: uint32(failures) + 1, Started: r.Started.UnixMilli(),
	}
	reg.RetryAt = e.c.now.Add(backoff(step.Retry, int(reg.Failures), e.c.rand())).UnixMilli()
	e.write(t, &step, reg)
}

// calm is how long a step must hold before its failures are forgotten.
const calm = 10 * time.Minute

// again has a step look at what it made.
func (e *engine) again(a Again) {
	t, ok := e.objects[crdt.Ref(a.Key)]
	if !ok || t.snap() == nil || (a.ID != "" && t.snap().ID != a.ID) {
		return
	}
	delete(t.adopted, a.Step)
	delete(t.tries, a.Step) // what it was blocked on may be there now
	e.mark(t.ref)
}
