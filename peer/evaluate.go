package peer

import (
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// evaluate looks at one object: where each of its steps stands, and what this peer
// must start, stop or decide.
func (e *engine) evaluate(t *tracked) {
	e.seen(t)
	t.left = false
	e.undoForeignLives(t)
	e.reap(t)
	e.settleDeclarations(t)
	if t.life == 0 {
		e.setTopics(t, nil)
		e.setAsked(t, nil)
		e.forget(t)
		return
	}
	if !e.concerns(t) {
		e.leave(t)
		return
	}
	v := &view{c: e.c}
	snap := e.derive(t, v)
	eval := &e.eval
	t.kind.Graph.Reevaluate(eval, &t.hand().memo, snap, e.goal(t), e.env(t, snap))
	wasVerdict, wasGone := t.verdict, t.gone
	e.stays(t, eval)
	t.verdict, t.gone = eval.Verdict, eval.Gone
	e.noteQueued(t)
	if t.gone != wasGone {
		e.setGone(t, t.gone)
	} else if t.verdict != wasVerdict {
		e.wakeTopic(objectTopic(t.ref)) // who was looked at before it in this turn saw it as it was
	}
	for _, step := range eval.Cancel {
		e.cancel(t, step)
	}
	e.waits = e.waits[:0]
	for _, run := range eval.Run {
		e.run(t, snap, run, v)
	}
	e.release(t)
	e.tighten(t)
	topics := append(v.topics, e.objectTopics(loops.Bound(t.snap().Fields))...)
	e.setTopics(t, append(topics, e.consults(t)...))
	e.setAsked(t, append(v.asked, e.silentHolders(t)...))
	e.wakeAt(t, earliest(eval.Wake, v.wake, e.startReport(t), e.nextTry(t)))
}

// concerns reports whether this peer could have anything to do for the object: as its
// executor, on its machine, because it made something for it, or because the object's
// machine is silent, which every peer judges for itself. What is deleted concerns
// everybody, until it is gone.
func (e *engine) concerns(t *tracked) bool {
	self := e.c.self.Name
	machine := t.machine()
	if t.snap().Deleted || machine == self || e.executor(t) == self || len(t.running) > 0 || e.effects.any(t.snap().ID) {
		return true
	}
	if _, promised := e.held.byID[t.snap().ID]; promised {
		return true
	}
	return t.hand().own || machine != "" && !e.c.memberView(machine).Alive
}

// leave drops what was known of an object that others are at work on. Where it stands is
// found out when somebody asks.
func (e *engine) leave(t *tracked) {
	e.setTopics(t, nil)
	e.setAsked(t, nil)
	t.verdict, t.left = "", true
	clear(t.queued)
	if t.gone {
		e.setGone(t, false)
	}
}

// setGone notes that an object is over, or that another life of its name began.
func (e *engine) setGone(t *tracked, gone bool) {
	t.gone = gone
	e.c.out.Looked = true // whoever follows the state may have been told otherwise
	e.wakeTopic(objectTopic(t.ref))
	if t.kind.Reservation == nil {
		e.wakeTopic(kindTopic(t.ref.Kind))
	}
	e.wakeParent(t)
	e.account(t) // what is gone reserves nothing
	delete(e.health, t.snap().ID)
	e.lists[t.ref.Kind] = nil
	e.feed.changed(t)
	if _, moved := e.moved[t.ref]; moved || t.ref.Kind == "Machine" {
		e.routesChanged()
	}
	if _, own := e.own[t.ref.Kind]; own && !e.alive(t.ref.Kind) {
		e.stale = true // with the last object the kind is gone
		e.mark(crdt.Ref(api.KindObject(t.ref.Kind)))
	}
}

// verdictOf is where an object stands, as this peer found when it last looked.
func (e *engine) verdictOf(t *tracked) lifecycle.State {
	if t.verdict == "" && t.life != 0 {
		t.verdict = e.verdictNow(t)
	}
	return t.verdict
}

// verdictNow is where an object stands, also if it has changed and is still to be looked at.
func (e *engine) verdictNow(t *tracked) lifecycle.State {
	if t.verdict != "" && !t.marked || t.life == 0 {
		return t.verdict
	}
	snap := e.derive(t, &view{c: e.c})
	return t.kind.Graph.Evaluate(snap, e.goal(t), e.env(t, snap)).Verdict
}

// derive adds what the kind computes from other objects.
func (e *engine) derive(t *tracked, v *view) *lifecycle.Object {
	if t.kind.Derive == nil {
		return t.snap()
	}
	return e.withDerived(t.snap(), t.kind.Derive(t.snap(), v))
}

func (e *engine) withDerived(o *lifecycle.Object, derived api.Fields) *lifecycle.Object {
	snap := *o
	snap.Derived = derived
	return &snap
}

func (e *engine) goal(t *tracked) string {
	if t.snap().Deleted {
		return lifecycle.Deleted
	}
	return e.goalOf(t.kind, t.snap().Fields, 0)
}

func (e *engine) env(t *tracked, snap *lifecycle.Object) lifecycle.Env {
	env := lifecycle.Env{
		Self: e.c.self.Name, Executor: e.executor(t), Machine: e.machineOf(t.ref, snap),
		Now: e.c.now, Member: e.c.memberView,
		Removed: e.removed,
		Running: func(step string) (lifecycle.Running, bool) {
			a, ok := t.running[step]
			if !ok {
				return lifecycle.Running{}, false
			}
			stray := a.undo && (a.stray || a.objectID != snap.ID)
			return lifecycle.Running{Reads: a.reads, Since: a.started, Undo: a.undo, Stray: stray}, true
		},
		Feedback: func(step string) lifecycle.Feedback { return t.feedback[step] },
		Adopt:    func(step string) bool { return e.adopts(t, step) },
		Effects:  func(step string) bool { return e.effects.has(snap.ID, step) },
	}
	env.Entries = func(loop string) lifecycle.Entries { return e.entries[ledgerKey{t.ref, loop}] }
	env.Skip = func(step string) bool { return e.skips(t, snap, step) }
	env.Looked = func(step string) time.Time { return t.looked[step] }
	env.Again = func(step string) bool { return t.again[step] }
	env.Child = func(step string) (string, lifecycle.State) { return e.worstChild(t, step) }
	env.MayRetry = func(step string) bool {
		try := t.tries[step]
		return try == nil || (try.woken && !e.c.now.Before(try.next)) || (!try.next.IsZero() && !e.c.now.Before(try.next.Add(unwoken(t, step))))
	}
	return env
}

// adopts reports whether a step has to look at what an earlier life of this peer did. A
// disk that is an older copy may have forgotten a promise, or hold one of less from before
// an edit: it is made again, if it can be.
func (e *engine) adopts(t *tracked, name string) bool {
	if step, ok := t.kind.Graph.Step(name); ok && step.Reserves {
		old, held := e.held.byID[t.snap().ID]
		return t.kind.Reservation != nil && !(held && old.Covers(t.kind.Reservation(t.snap().Fields)))
	}
	seen, ok := t.adopted[name]
	return !ok || seen != resultOf(t.snap(), name)
}

// blockedRetry is how long a blocked step waits, beyond its backoff, before it is
// tried although nothing that it consults changed: what it acts on may be another. A step
// that only decides comes to the same then, and decidedRetry guards against what was
// overlooked.
const (
	blockedRetry = 30 * time.Second
	decidedRetry = 10 * time.Minute
)

// unwoken is which of the two holds for a step.
func unwoken(t *tracked, name string) time.Duration {
	if step, ok := t.kind.Graph.Step(name); ok && step.Decide != nil {
		return decidedRetry
	}
	return blockedRetry
}

// machineOf is where steps on a machine run: for a Machine, itself.
func (e *engine) machineOf(ref crdt.Ref, snap *lifecycle.Object) string {
	if ref.Kind == "Machine" {
		return ref.Name
	}
	m, _ := snap.Field("status.machine")
	return unquote(m)
}

// noteQueued remembers since when each step is due.
func (e *engine) noteQueued(t *tracked) {
	for _, s := range e.eval.Steps {
		if s.State == lifecycle.StateDone || s.State == lifecycle.StateIdle || s.State == lifecycle.StateSkipped {
			delete(t.queued, s.Step)
		} else if _, ok := t.queued[s.Step]; !ok && !s.Target {
			put(&t.queued, s.Step, e.c.now)
		}
	}
}

func (e *engine) setTopics(t *tracked, topics []string) {
	slices.Sort(topics)
	topics = slices.Compact(topics)
	if slices.Equal(t.topics, topics) {
		return
	}
	for _, topic := range t.topics {
		e.topics.remove(topic, t)
	}
	t.topics = slices.Clone(topics)
	for _, topic := range topics {
		e.topics.add(topic, t)
	}
}

// consults are the topics that wake the steps which are blocked, or have just been found to be.
func (e *engine) consults(t *tracked) []string {
	var topics []string
	for _, s := range e.eval.Steps {
		switch s.State {
		case lifecycle.StateBlocked, lifecycle.StateRetrying:
			step, _ := t.kind.Graph.Step(s.Step)
			topics = append(topics, e.consultsOf(t, &step)...)
		case lifecycle.StateWaiting, lifecycle.StateUndoing:
			if name, ok := cutMachine(s.For); ok {
				topics = append(topics, e.memberTopic(name))
			}
		}
	}
	for _, step := range e.waits {
		topics = append(topics, e.consultsOf(t, step)...)
	}
	return topics
}

func (e *engine) consultsOf(t *tracked, step *lifecycle.Step) (topics []string) {
	for _, what := range step.Consults {
		if what == loops.ConsultsObjects {
			topics = append(topics, e.objectTopics(loops.Required(t.snap().Fields))...)
		} else {
			topics = append(topics, kindTopic(what))
		}
	}
	return topics
}

func cutMachine(s string) (string, bool) {
	const prefix = "machine/"
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return "", false
}

// silentHolders are machines that hold something back and do not answer: whether
// they can be passed over is for the voters to say.
func (e *engine) silentHolders(t *tracked) []string {
	var names []string
	for _, s := range e.eval.Steps {
		name, ok := cutMachine(s.For)
		if ok && s.State == lifecycle.StateWaiting && s.Message != "" && !e.c.memberView(name).Alive {
			names = append(names, name)
		}
	}
	return slices.Compact(names)
}

func (e *engine) wakeAt(t *tracked, at time.Time) {
	if !at.IsZero() {
		e.wakes.add(at, t)
	}
}

// nextTry is when a blocked step is tried again.
func (e *engine) nextTry(t *tracked) time.Time {
	var next time.Time
	for _, s := range e.eval.Steps {
		try := t.tries[s.Step]
		if s.State != lifecycle.StateBlocked || try == nil || s.Machine != e.c.self.Name {
			continue
		}
		if try.woken {
			next = earliest(next, try.next)
		} else {
			next = earliest(next, try.next.Add(unwoken(t, s.Step)))
		}
	}
	return next
}
