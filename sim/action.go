package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/peer"
)

// action is a step that runs on a simulated host. Its effect happens at its end, all at
// once; what it is to come to is drawn at its start.
type action struct {
	peer.Action
	m    *machine
	fate fate
	// over: the end was posted.
	over bool
}

// fate is what an action is to come to.
type fate int

const (
	succeeds    fate = iota
	failsBefore      // without effect
	failsAfter       // with its effect, which the caller is not told of
	hangs            // until its timeout, or until the storm is over
)

var errSimulated = errors.New("simulated failure of the machine")

// act starts an action.
func (m *machine) act(a peer.Action) {
	w := m.w
	run := &action{Action: a, m: m, fate: m.drawFate()}
	m.actions[a.ID] = run
	w.figures.Actions++
	w.check.acting(m, a)
	took := m.drawTime(a)
	if run.fate == hangs {
		took = a.Timeout
		w.sometimes("an action hangs")
	}
	if took > a.Timeout {
		took, run.fate = a.Timeout, hangs
	}
	if w.hooks.acting != nil {
		w.hooks.acting(a, took)
	}
	w.trace.note(w.now, 'a', m.index, int(run.fate), a.ID)
	if w.trace.out != nil {
		w.detail("%s starts %s of %s undo=%v for %v fate=%d", m.name, a.Step.Name, a.Inputs.Key.Name, a.Undo, took, run.fate)
	}
	m.later(took, run.end)
}

func (m *machine) drawFate() fate {
	r, w := m.w.random.host, m.w.weather
	if !m.w.faulty {
		return succeeds
	}
	switch {
	case r.chance(w.hanging):
		return hangs
	case r.chance(w.failing):
		return pick(r, []fate{failsBefore, failsAfter})
	}
	return succeeds
}

// drawTime draws how long an action takes.
func (m *machine) drawTime(a peer.Action) time.Duration {
	longest := 30 * time.Millisecond
	switch {
	case a.Step.Name == "container":
		longest = 400 * time.Millisecond
	case a.Step.Name == "image":
		longest = 600 * time.Millisecond
	}
	r := m.w.random.host
	took := r.between(longest/20, longest)
	if m.w.faulty && r.chance(m.w.weather.slow) {
		took *= 10
	}
	return took
}

// end is what happens when the action's time is over.
func (a *action) end() {
	if a.over {
		return
	}
	done := peer.ActionDone{Action: a.ID}
	switch a.fate {
	case succeeds:
		done.Outputs, done.Err = a.do(context.Background())
	case failsBefore:
		done.Err = errSimulated
		a.m.w.sometimes("an action fails without effect")
	case failsAfter:
		_, _ = a.do(context.Background())
		done.Err = errSimulated
		a.m.w.sometimes("an action fails with its effect")
	case hangs:
		done.Err = fmt.Errorf("step %s did not end within %s: %w", a.Step.Name, a.Timeout, context.DeadlineExceeded)
		a.m.w.sometimes("an action times out")
	}
	a.finish(done)
}

func (a *action) finish(done peer.ActionDone) {
	a.over = true
	delete(a.m.actions, a.ID)
	a.m.post(done)
}

// do runs the production step against the simulated host.
func (a *action) do(ctx context.Context) (lifecycle.Outputs, error) {
	if a.Undo {
		return nil, a.Step.Undo(ctx, loops.Host(a.m.host), a.Inputs)
	}
	return a.Step.Do(ctx, loops.Host(a.m.host), a.Inputs)
}

// cancel ends the action early; it may have had its effect by then.
func (a *action) cancel() {
	if a.over {
		return
	}
	a.m.w.sometimes("an action is cancelled")
	if a.fate != hangs && a.m.w.random.host.chance(0.3) {
		_, _ = a.do(context.Background())
	}
	a.finish(peer.ActionDone{Action: a.ID, Err: context.Canceled})
}

// cutOff is the end of the peer's program while the action runs: what was asked of the
// machine may happen all the same.
func (a *action) cutOff() {
	a.over = true
	a.m.w.sometimes("a crash cuts an action off")
	if a.fate != hangs && a.m.w.random.host.chance(0.5) {
		_, _ = a.do(context.Background())
	}
}

// release ends actions that hang, once the storm is over.
func (m *machine) release() {
	for _, id := range sortedIDs(m.actions) {
		if a := m.actions[id]; a.fate == hangs {
			a.fate = failsBefore
			m.later(m.w.random.host.between(0, time.Second), a.end)
		}
	}
}
