package durable

import (
	"context"
	"fmt"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store"
)

// Group writes to a store as the peer's loop does: one goroutine takes all writes
// that wait, makes one commit of them, and answers. It measures the disk's side
// alone, without signatures, network and fold.
type Group struct {
	store *store.Store
	// waiting is unbuffered: a client waits for its answer anyway.
	waiting chan waiter
	value   []byte
	actor   crdt.ActorID
	last    uint64
}

type waiter struct {
	done chan<- error
}

// NewGroup writes values of a size as one actor of the store.
func NewGroup(s *store.Store, valueSize int) *Group {
	return &Group{
		store:   s,
		waiting: make(chan waiter),
		value:   make([]byte, valueSize),
		actor:   crdt.ActorID{1},
	}
}

// Run commits until ctx ends.
func (g *Group) Run(ctx context.Context) error {
	for {
		var group []waiter
		select {
		case <-ctx.Done():
			return nil
		case w := <-g.waiting:
			group = append(group, w)
		}
		group = g.gather(group)
		err := g.commit(len(group))
		for _, w := range group {
			w.done <- err
		}
	}
}

// gather takes who else waits now.
func (g *Group) gather(group []waiter) []waiter {
	for len(group) < crdt.MaxEntries {
		select {
		case w := <-g.waiting:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

func (g *Group) commit(n int) error {
	b := crdt.Batch{Actor: g.actor, First: g.last + 1, Sig: make([]byte, 64)}
	if b.First == 1 {
		b.Birth = &crdt.Birth{PublicKey: make([]byte, 32)}
	}
	for range n {
		b.Changes = append(b.Changes, g.value)
	}
	g.last += uint64(n)
	err := g.store.Commit(crdt.Commit{
		Batches:   []crdt.Batch{b},
		HighWater: crdt.HighWater{Actor: g.actor, Head: crdt.Head{Seq: g.last}},
	})
	if err != nil {
		return fmt.Errorf("commit %d values: %w", n, err)
	}
	return nil
}

// Write is a [Write].
func (g *Group) Write(ctx context.Context, _ int) error {
	done := make(chan error, 1) // the answer never waits for a client that gave up
	select {
	case g.waiting <- waiter{done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
