package lifecycle

import (
	"time"
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
	// Running tells the reads hash of a step's attempt that this peer runs now.
	Running func(step string) (reads [32]byte, since time.Time, ok bool)
	// Adopt reports whether the step has yet to look at what an earlier life of this
	// peer made: it runs once more, though its result is current.
	Adopt func(step string) bool
	// Effects reports whether this machine holds something that the step made,
	// whatever the replicated result says.
	Effects func(step string) bool
	// MayRetry reports whether this peer may try a blocked step again now: something
	// that it consults changed since its last try, or its backoff is over.
	MayRetry func(step string) bool
}

// State is where a step stands.
type State string

// The states of a step, and the four words for an object.
const (
	StateIdle     State = "idle"     // the goal does not need it
	StateDone     State = "done"     // done with its current reads
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
}

// Evaluation is the whole truth about one object as this peer sees it.
type Evaluation struct {
	Goal    string
	Verdict State
	Steps   []StepState // in the order of the graph
	Run     []Run
	Cancel  []string  // steps that run here with reads that are no longer current
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

// Evaluate computes where every step of the object stands, what this peer must
// start, and when to look again. It is pure, and its cost depends on the object only.
func (g *Graph) Evaluate(o *Object, goal string, env Env) Evaluation {
	v := &evaluator{g: g, o: o, env: env, goal: goal, states: map[*node]*StepState{}}
	v.eval.Goal = goal
	v.needed = g.closure(goal)
	for _, n := range g.nodes {
		v.forward(n)
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		v.backward(g.nodes[i])
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		v.stray(g.nodes[i])
	}
	for _, n := range g.nodes {
		v.eval.Steps = append(v.eval.Steps, *v.states[n])
	}
	v.conclude()
	return v.eval
}

// evaluator holds one evaluation in progress.
type evaluator struct {
	g      *Graph
	o      *Object
	env    Env
	goal   string
	needed map[*node]bool
	states map[*node]*StepState
	eval   Evaluation
}

func (v *evaluator) place(n *node) string {
	if n.step.Where == OnMachine {
		return v.env.Machine
	}
	return v.env.Executor
}

// hashPlace is the part of the place that makes a result stale: a decision made by
// one executor stays good when another takes over, an action on a machine does not.
func (v *evaluator) hashPlace(n *node) string {
	if n.step.Where == OnMachine {
		return v.env.Machine
	}
	return ""
}

// forward judges a node on the way up.
func (v *evaluator) forward(n *node) {
	s := &StepState{Step: n.name, Loop: n.loop, Target: n.step == nil, State: StateIdle}
	v.states[n] = s
	if n.step != nil {
		s.Result = v.o.Results[n.name]
	}
	if !v.needed[n] {
		v.cancelIfRunning(n)
		return
	}
	if v.mustRelease(n, s.Result) {
		s.State, s.Machine = StateUndoing, v.env.Self
		return
	}
	if wait := v.unmet(n); wait != nil {
		s.State, s.For = StateWaiting, wait.name
		v.markDirty(n, s)
		return
	}
	if n.step == nil {
		s.State = StateDone
		return
	}
	v.judge(n, s)
}

// unmet returns the node that n must wait for: a requirement that is not done, or a
// needed node it is ordered after that may still run. Of several the one that
// stands worst is named, since it is the cause.
func (v *evaluator) unmet(n *node) *node {
	var worst *node
	consider := func(m *node, open bool) {
		if open && (worst == nil || v.severity(m) > v.severity(worst)) {
			worst = m
		}
	}
	for _, r := range n.requires {
		consider(r, v.states[r].State != StateDone)
	}
	for _, a := range n.after {
		consider(a, v.needed[a] && !settled(v.states[a].State))
	}
	return worst
}

// severity ranks a node by the state at the end of its chain of waits.
func (v *evaluator) severity(n *node) int {
	s := v.states[n]
	for s.State == StateWaiting {
		next, ok := v.g.index[s.For]
		if !ok {
			return 2
		}
		s = v.states[next]
	}
	switch s.State {
	case StateBlocked:
		return 4
	case StateRetrying:
		return 3
	case StateRunning, StateReady, StateUndoing:
		return 1
	}
	return 0
}

// settled: done, or failed in a way that does not concern those only ordered after.
func settled(s State) bool {
	return s == StateDone || s == StateIdle || s == StateRetrying || s == StateBlocked
}

func (v *evaluator) markDirty(n *node, s *StepState) {
	if n.step == nil || s.Result.Phase != PhaseDone {
		return
	}
	fields := selectFields(v.o, n.reads)
	s.Dirty = hashReads(fields, v.hashPlace(n)) != s.Result.Reads
}

// judge decides for a step whose requirements are all met.
func (v *evaluator) judge(n *node, s *StepState) {
	s.Machine = v.place(n)
	if s.Machine == "" {
		s.State, s.For = StateWaiting, "machine"
		return
	}
	fields := selectFields(v.o, n.reads)
	reads := hashReads(fields, v.hashPlace(n))
	r := s.Result
	current := r.Reads == reads
	s.Dirty = r.Phase == PhaseDone && !current
	if running, since, ok := v.env.Running(n.name); ok {
		s.State, s.Since, s.Until, s.Machine = StateRunning, since, since.Add(n.step.Timeout), v.env.Self
		if running != reads || s.Machine != v.place(n) {
			v.eval.Cancel = append(v.eval.Cancel, n.name)
		}
		return
	}
	switch {
	case r.Phase == PhaseDone && current && v.holds(n, r) && !v.adopt(n, r):
		s.State, s.Since = StateDone, r.Finished
		return
	case v.heldElsewhere(n, s):
		return
	case r.Phase == PhaseFailed && current && v.holds(n, r) && !v.retry(n, s):
		return
	case r.Phase == PhaseStarted && current && v.elsewhere(n, s):
		return
	}
	v.start(n, s, reads, inputs(v.o, n, fields, v.env.Self))
}

// adopt: what an earlier life of this peer did is looked at once, by doing it again.
func (v *evaluator) adopt(n *node, r Result) bool {
	return n.acts() && r.Executor == v.env.Self && v.env.Adopt(n.name)
}

// holds reports whether the result was made where the step belongs.
func (v *evaluator) holds(n *node, r Result) bool {
	return n.step.Where != OnMachine || r.Executor == v.env.Machine
}

// made reports whether the result stands for something outside the object that has
// to be taken back.
func made(n *node, r Result) bool {
	return n.step != nil && n.step.Undo != nil && r.Phase != PhaseNever && r.Phase != PhaseUndone
}

// mustRelease: this machine made something for an object that belongs to another
// machine now.
func (v *evaluator) mustRelease(n *node, r Result) bool {
	return made(n, r) && r.Executor == v.env.Self && !v.holds(n, r) && v.env.Machine != ""
}

// heldElsewhere: another machine still has what an earlier run made. It takes that
// back first, unless nobody can ask it any more.
func (v *evaluator) heldElsewhere(n *node, s *StepState) bool {
	r := s.Result
	if !made(n, r) || v.holds(n, r) || v.lost(r.Executor) {
		return false
	}
	s.State, s.For = StateWaiting, "machine/"+r.Executor
	s.Message = "it has to let go first"
	return true
}

// lost: the machine is gone for good, or a majority of the voters finds it silent.
func (v *evaluator) lost(machine string) bool {
	return v.env.Removed(machine) || v.env.Member(machine).Silent
}

// retry reports whether a failed step may run again, and else says when.
func (v *evaluator) retry(n *node, s *StepState) bool {
	r := s.Result
	s.Code, s.Message, s.Since = r.Code, r.Message, r.Finished
	if r.RetryAt.IsZero() {
		if s.Machine == v.env.Self && v.env.MayRetry(n.name) {
			return true
		}
		s.State = StateBlocked
		return false
	}
	if !v.env.Now.Before(r.RetryAt) {
		return true
	}
	s.State, s.Until = StateRetrying, r.RetryAt
	v.wake(r.RetryAt)
	return false
}

// elsewhere: the step was started by another peer that is still in charge of it.
func (v *evaluator) elsewhere(n *node, s *StepState) bool {
	r := s.Result
	if r.Executor == v.env.Self || r.Executor != s.Machine {
		return false
	}
	s.State, s.Since, s.Until = StateRunning, r.Started, r.Started.Add(n.step.Timeout)
	return true
}

// start makes the step run here, or says whom it waits for.
func (v *evaluator) start(n *node, s *StepState, reads [32]byte, in Inputs) {
	if s.Machine != v.env.Self {
		s.State, s.For = StateWaiting, "machine/"+s.Machine
		if !v.env.Member(s.Machine).Alive {
			s.Code = "MachineSilent"
			s.Since = v.env.Member(s.Machine).Since
		}
		return
	}
	s.State = StateReady
	v.eval.Run = append(v.eval.Run, Run{Step: n.step, Reads: reads, Inputs: in})
}

func (v *evaluator) wake(at time.Time) {
	if v.eval.Wake.IsZero() || at.Before(v.eval.Wake) {
		v.eval.Wake = at
	}
}

func (v *evaluator) cancelIfRunning(n *node) {
	if n.step == nil {
		return
	}
	if _, _, ok := v.env.Running(n.name); ok {
		v.eval.Cancel = append(v.eval.Cancel, n.name)
	}
}

func inputs(o *Object, n *node, fields map[string]string, self string) Inputs {
	r := o.Results[n.name]
	return Inputs{
		Key: o.Key, ID: o.ID, Rev: o.Rev, Fields: fields, Previous: r.Outputs,
		Machine: self, Attempt: r.Attempt + 1,
	}
}

// ReadsHash returns the hash of what the step reads of the object; machine is the
// place of steps that run on one.
func (g *Graph) ReadsHash(o *Object, step, machine string) [32]byte {
	n, ok := g.index[step]
	if !ok || n.step == nil {
		return [32]byte{}
	}
	if n.step.Where != OnMachine {
		machine = ""
	}
	return hashReads(selectFields(o, n.reads), machine)
}
