package lifecycle

import (
	"slices"
	"time"

	"starling.dev/starling/api"
)

// Env is what the engine must know beside the object itself.
type Env struct {
	// Self is the name of this machine.
	Self string
	// Executor is the machine that rendezvous hashing gives the object.
	Executor string
	// Machine is the machine that steps OnMachine run on; empty while unknown.
	Machine string
	// Member tells a machine's liveness; Removed whether it left the cluster for good.
	Member  func(machine string) Member
	Removed func(machine string) bool
	Now     time.Time
	// Running tells what this peer is doing for a step now.
	Running func(step string) (Running, bool)
	// Adopt reports whether the step has yet to look at what an earlier life of this
	// peer made: it runs once more, though its result is current.
	Adopt func(step string) bool
	// Effects reports whether this machine holds something that the step made,
	// whatever the replicated result says.
	Effects func(step string) bool
	// MayRetry reports whether this peer may try a blocked step again now: something
	// that it consults changed since its last try, or its backoff is over.
	MayRetry func(step string) bool
	// Feedback is what this peer remembers of a step's runs by feedback. It may be
	// nil: then feedback is not bounded.
	Feedback func(step string) Feedback
	// Entries is what this peer's loop of that name wrote about the object. It may be nil:
	// then it is not bounded.
	Entries func(loop string) Entries
	// Skip reports whether a person said, on the record, to pass the step over: on the
	// way up it counts as done, on the way down as taken back. It may be nil.
	Skip func(step string) bool
	// Looked is when this peer last did a step that is done again in an interval; zero if it
	// has not. It may be nil: then the interval is not kept.
	Looked func(step string) time.Time
	// Again reports whether a step that decides here is to decide once more, though its
	// result is current: something local to this machine changed, a probe's answer say.
	// It may be nil.
	Again func(step string) bool
	// Child names that child of a managing step which stands worst, and its verdict; ""
	// when there is none. It may be nil.
	Child func(step string) (key string, verdict State)
}

// Running is an action that is under way on this peer.
type Running struct {
	Reads [32]byte
	Since time.Time
	// Undo: it takes the step back. Stray: for a result or an incarnation that is not
	// this object's any more.
	Undo, Stray bool
}

// State is where a step stands.
type State string

// The states of a step, and the four words for an object.
const (
	StateIdle     State = "idle"     // the goal does not need it
	StateDone     State = "done"     // done with its current reads
	StateSkipped  State = "skipped"  // passed over, as a person said
	StateWaiting  State = "waiting"  // for another step, or a machine
	StateReady    State = "ready"    // to be run here, now
	StateRunning  State = "running"  // here or on another machine
	StateRetrying State = "retrying" // failed; runs again at Until
	StateBlocked  State = "blocked"  // failed until something changes
	StateUndoing  State = "undoing"  // being taken back

	Converged   State = "converged"
	Progressing State = "progressing"
	Blocked     State = "blocked"
	Failed      State = "failed"
)

// StepState is one step's part in the explanation of an object.
type StepState struct {
	Step    string
	Loop    string
	Target  bool
	State   State
	Machine string    // who runs it, or would
	For     string    // the step or "machine/NAME" that it waits for
	Since   time.Time // when it came into this state, where known
	Until   time.Time // its timeout, or when it is tried again
	Code    string
	Message string
	Dirty   bool // has a result whose reads are no longer current
	Result  Result
}

// Run is a step that this peer must start now.
type Run struct {
	Step *Step
	Undo bool
	// Stray: what is undone belongs to no result any more; nothing is written.
	Stray  bool
	Reads  [32]byte
	Inputs Inputs
	// Feedback: only because of what stands further down does it run again. Whoever
	// starts it notes that; see [Feedback.Note].
	Feedback   bool
	Generation [32]byte
}

// Evaluation is the whole truth about one object as this peer sees it.
type Evaluation struct {
	Goal    string
	Verdict State
	Steps   []StepState // in the order of the graph
	Run     []Run
	Cancel  []string  // steps that run here and should not: their reads changed, or nobody needs them
	Wake    time.Time // when to evaluate again, if nothing changes before; zero: never
	Gone    bool      // deleted, and everything taken down
	// Silent is the object's machine if it does not answer: then nothing that is
	// recorded about it there is certain.
	Silent      string
	SilentSince time.Time
}

// Step returns the state of the named step or target.
func (e *Evaluation) Step(name string) (StepState, bool) {
	for _, s := range e.Steps {
		if s.Step == name {
			return s, true
		}
	}
	return StepState{}, false
}

// Deleted is the goal of an object that is being deleted: nothing is needed.
const Deleted = "deleted"

// CodeSilent is the code of a step that waits for a machine which does not answer.
const CodeSilent = api.MachineSilent

// UndoFailed is the code of a step whose undo failed; it is tried again with backoff.
const UndoFailed = api.UndoFailed

// Evaluate computes where every step of the object stands, what this peer must
// start, and when to look again. It is pure, and its cost depends on the object only.
//
// On the way up a step runs once everything that it requires is done. On the way down,
// in reverse order, a step is taken back once everything behind it has been.
func (g *Graph) Evaluate(o *Object, goal string, env Env) Evaluation {
	var e Evaluation
	g.Reevaluate(&e, &Memo{}, o, goal, env)
	return e
}

// Reevaluate is Evaluate for who looks at objects again and again. It overwrites e and
// uses its memory again; m is what was learnt when the object was looked at last.
func (g *Graph) Reevaluate(e *Evaluation, m *Memo, o *Object, goal string, env Env) {
	m.read(g, o)
	v := evaluator{g: g, o: o, env: env, reads: m}
	v.eval = Evaluation{Goal: goal, Steps: e.Steps[:0], Run: e.Run[:0], Cancel: e.Cancel[:0]}
	v.eval.Steps = slices.Grow(v.eval.Steps, len(g.nodes))[:len(g.nodes)]
	if n, ok := g.index[goal]; ok {
		v.needed, v.hard = n.pulls, n.hard
	}
	for _, n := range g.nodes {
		v.forward(n)
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		v.backward(g.nodes[i])
	}
	v.conclude()
	*e = v.eval
}

// evaluator holds one evaluation in progress.
type evaluator struct {
	g     *Graph
	o     *Object
	env   Env
	reads *Memo

	needed set // by the goal
	hard   set // without which the goal is not reached
	held   set // made here, for an object that belongs elsewhere now
	kept   set // those of held that can't be let go yet
	down   set // being taken back, here or elsewhere
	strays set // left here by an object that has moved on without this machine

	ranks [maxNodes]rank // of the nodes judged so far
	eval  Evaluation
}

func (v *evaluator) state(n *node) *StepState { return &v.eval.Steps[n.at] }

// place is the machine that runs the step.
func (v *evaluator) place(n *node) string {
	if n.step.Where == OnMachine {
		return v.env.Machine
	}
	return v.env.Executor
}

// hash is that of what the step reads now. A decision made by one executor stays good
// when another takes over; an action on a machine does not.
func (v *evaluator) hash(n *node) [32]byte {
	if n.step.Where == OnMachine {
		return v.reads.hash(n.at, v.env.Machine)
	}
	return v.reads.hash(n.at, "")
}

func (v *evaluator) inputs(n *node) Inputs {
	return inputsOf(v.o, n, v.reads, v.env.Self)
}

func inputsOf(o *Object, n *node, r *Memo, machine string) Inputs {
	old := o.Results[n.name]
	return Inputs{
		Key: o.Key, ID: o.ID, Rev: o.Rev, Fields: r.fieldsOf(n.at), Previous: old.Outputs,
		Machine: machine, Attempt: old.Attempt + 1,
	}
}

func (v *evaluator) run(r Run) { v.eval.Run = append(v.eval.Run, r) }

func (v *evaluator) cancel(n *node) { v.eval.Cancel = append(v.eval.Cancel, n.name) }

func (v *evaluator) wake(at time.Time) {
	if v.eval.Wake.IsZero() || at.Before(v.eval.Wake) {
		v.eval.Wake = at
	}
}

// lost: the machine is gone for good, or a majority of the voters finds it silent.
func (v *evaluator) lost(machine string) bool {
	return v.env.Removed(machine) || v.env.Member(machine).Silent
}

// waitFor notes that a machine has to act, and whether it can be expected to.
func (v *evaluator) waitFor(s *StepState, machine string) {
	s.For = "machine/" + machine
	if m := v.env.Member(machine); !m.Alive {
		s.Code, s.Since = CodeSilent, m.Since
	}
}

// made reports whether the result stands for something outside the object that has
// to be taken back.
func made(n *node, r *Result) bool {
	return n.step != nil && n.step.Undo != nil && r.Phase != PhaseNever && r.Phase != PhaseUndone
}
