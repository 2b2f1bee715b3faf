package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"sync"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/lifecycle"
)

// Programs are the foreign loops whose programs are attached to this peer. It is safe
// for concurrent use.
type Programs struct {
	mu       sync.Mutex // guards what follows
	sessions map[string]*session
}

// NewPrograms returns an empty set.
func NewPrograms() *Programs { return &Programs{sessions: map[string]*session{}} }

// session is one attachment of a program.
type session struct {
	id    string
	loop  string
	calls chan *apiv1.StepCall // unbuffered: a call is made when the program takes it
	gone  chan struct{}        // closed when the stream ends

	mu      sync.Mutex // guards what follows
	last    uint64
	pending map[uint64]chan *apiv1.StepResult // each with room for its one result
}

// attach begins a session, unless the loop has one.
func (p *Programs) attach(loop string) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.sessions[loop]; taken {
		return nil, api.Errorf(api.AlreadyExists, "another program is attached as loop %s on this machine; stop that one first", loop)
	}
	s := &session{id: rand.Text(), loop: loop, calls: make(chan *apiv1.StepCall), gone: make(chan struct{}), pending: map[uint64]chan *apiv1.StepResult{}}
	p.sessions[loop] = s
	return s, nil
}

func (p *Programs) detach(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s.loop)
	close(s.gone)
}

func (p *Programs) of(loop string) (*session, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.sessions[loop]
	return s, ok
}

func (p *Programs) byID(id string) (*session, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		if s.id == id {
			return s, true
		}
	}
	return nil, false
}

// Call has an attached loop do a step, or take it back. When ctx ends the program is
// told so, and its late answer is dropped.
func (p *Programs) Call(ctx context.Context, loop, step string, undo bool, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	s, ok := p.of(loop)
	if !ok {
		return nil, detached(loop, in.Machine)
	}
	id, result := s.expect()
	defer s.forget(id)
	call := &apiv1.StepCall{
		Session: s.id, Id: id, Step: step, Undo: undo, Key: keyTo(in.Key), ObjectId: in.ID, Rev: in.Rev,
		Fields: in.Fields, Previous: in.Previous, Machine: in.Machine, Attempt: in.Attempt,
	}
	if deadline, ok := ctx.Deadline(); ok {
		call.DeadlineMs = deadline.UnixMilli()
	}
	if err := s.send(ctx, call); err != nil {
		return nil, err
	}
	select {
	case r := <-result:
		return resultOf(r)
	case <-s.gone:
		return nil, detached(loop, in.Machine)
	case <-ctx.Done():
		s.cancel(id)
		return nil, fmt.Errorf("foreign loop %s did not answer: %w", loop, ctx.Err())
	}
}

func detached(loop, machine string) error {
	return &lifecycle.Error{Code: api.LoopDetached, Wait: true, Message: fmt.Sprintf("foreign loop %s is not attached on %s; start its program there", loop, machine)}
}

func resultOf(r *apiv1.StepResult) (lifecycle.Outputs, error) {
	err := failureOf(r)
	if r.GetOwns() {
		owns := &lifecycle.Owns{Err: err}
		for _, c := range r.GetChildren() {
			owns.Children = append(owns.Children, lifecycle.Child{Slot: int(c.GetSlot()), Fields: api.Fields(c.GetFields())})
		}
		err = owns
	}
	return r.GetOutputs(), err
}

// codePattern is what codes look like; programs that give none, or a sentence, have none.
var codePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// failureOf is how a call ended; nil if its step is done.
func failureOf(r *apiv1.StepResult) error {
	if r.GetMessage() == "" && r.GetCode() == "" {
		return nil
	}
	if r.GetPending() {
		return &lifecycle.Pending{Message: r.GetMessage()}
	}
	code := r.GetCode()
	if !codePattern.MatchString(code) {
		code = api.StepFailed
	}
	failed := &lifecycle.Error{Code: code, Message: r.GetMessage(), Wait: r.GetWait()}
	if len(r.GetOutputs()) > 0 {
		failed.Outputs = r.GetOutputs()
	}
	return failed
}

func (s *session) expect() (uint64, chan *apiv1.StepResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	result := make(chan *apiv1.StepResult, 1)
	s.pending[s.last] = result
	return s.last, result
}

func (s *session) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

func (s *session) send(ctx context.Context, call *apiv1.StepCall) error {
	select {
	case s.calls <- call:
		return nil
	case <-s.gone:
		return detached(s.loop, call.GetMachine())
	case <-ctx.Done():
		return fmt.Errorf("foreign loop %s takes no calls: %w", s.loop, ctx.Err())
	}
}

// cancelPatience is how long a program may take to hear of a cancellation: its answer
// is dropped in any case.
const cancelPatience = time.Second

func (s *session) cancel(id uint64) {
	select {
	case <-time.After(cancelPatience):
	case s.calls <- &apiv1.StepCall{Session: s.id, Id: id, Cancel: true}:
	case <-s.gone:
	}
}

// finish hands a result to whoever waits for it. One that nobody waits for any more is
// dropped.
func (s *session) finish(r *apiv1.StepResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if result, ok := s.pending[r.GetId()]; ok {
		delete(s.pending, r.GetId())
		result <- r
	}
}
