package peer

import (
	"context"
	"errors"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// Post hands an event to the core. It blocks while the queue is full, unless the
// context ends: then only the end of an action still waits for its place.
func (l *Loop) Post(ctx context.Context, e Event) {
	if _, must := e.(ActionDone); must {
		l.events <- e
		return
	}
	select {
	case l.events <- e:
	case <-ctx.Done():
	}
}

// Receive decodes and checks a frame of another member, and hands it to the core.
func (l *Loop) Receive(ctx context.Context, from crdt.MachineID, frame []byte) {
	m, err := DecodeMessage(frame)
	if err != nil {
		l.cfg.Logger.Warn("message refused", "from", from, "error", err)
		return
	}
	m, err = l.cfg.Verifier.Message(m)
	if err != nil && !errors.Is(err, errStranger) {
		l.cfg.Logger.Warn("entries refused", "from", from, "error", err)
	}
	l.Post(ctx, Received{From: from, Message: m})
}

// Write asks for a change set and waits until it is durable.
func (l *Loop) Write(ctx context.Context, w Write) (Answer, error) {
	return l.request(ctx, func(id uint64) Event {
		w.Request = id
		return w
	})
}

// Manage states something in the authorisation log and waits until it is durable.
func (l *Loop) Manage(ctx context.Context, do func(*identity.Log, time.Time) error) error {
	a, err := l.request(ctx, func(id uint64) Event { return Manage{Request: id, Do: do} })
	if err != nil {
		return err
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

func (l *Loop) request(ctx context.Context, event func(id uint64) Event) (Answer, error) {
	ch := make(chan Answer, 1) // one answer, which must not block the loop
	l.mu.Lock()
	if l.down != nil {
		defer l.mu.Unlock()
		return Answer{}, asError(l.down)
	}
	l.lastID++
	id := l.lastID
	l.waiting[id] = ch
	l.mu.Unlock()
	l.Post(ctx, event(id))
	select {
	case a := <-ch:
		return a, nil
	case <-l.ended:
		return Answer{}, api.Errorf(api.Internal, "%w", errStopping)
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, id)
		return Answer{}, api.Errorf(api.TimedOut, "no answer in time; the change may still take effect: %w", ctx.Err())
	}
}

func (l *Loop) answer(answers []Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range answers {
		if ch, ok := l.waiting[a.Request]; ok {
			ch <- a
			delete(l.waiting, a.Request)
		}
	}
}

// Version counts what happened to the core. While it is what it was within a query, that
// query would find the same again: nothing that happens is seen before it is counted.
func (l *Loop) Version() uint64 { return l.version.Load() }

// Query runs do between two turns, when everything that it sees is durable. It must
// be quick, and keep nothing but immutable snapshots. Once Run has returned it fails.
func (l *Loop) Query(ctx context.Context, do func(*Core)) error {
	q := query{do: do, done: make(chan error, 1)} // one word, which must not block the loop
	select {
	case l.events <- q:
	case <-l.ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-q.done:
		return err
	case <-l.ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
