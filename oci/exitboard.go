package oci

import (
	"context"
	"sync"

	"starling.dev/starling/loops"
)

// maxUntold bounds the exits that wait for a watcher. Beyond it the oldest are
// dropped: their containers still say how they ended when they are next looked at.
const maxUntold = 4096

// exitBoard holds exits between those who find them and the one who is told, and
// remembers which were told, so that an exit that is found twice is told once.
type exitBoard struct {
	// posted has room for one token, which means "look again".
	posted chan struct{}

	mu    sync.Mutex
	known map[string]bool // container IDs, for as long as the containers exist
	queue []loops.Exit
}

func newExitBoard() exitBoard {
	return exitBoard{posted: make(chan struct{}, 1), known: map[string]bool{}}
}

// post adds a container's exit unless it is known.
func (b *exitBoard) post(containerID string, exit loops.Exit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[containerID] {
		return
	}
	b.known[containerID] = true
	if len(b.queue) == maxUntold {
		b.queue = b.queue[1:]
	}
	b.queue = append(b.queue, exit)
	select {
	case b.posted <- struct{}{}:
	default:
	}
}

// forget is called when a container no longer exists.
func (b *exitBoard) forget(containerID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, containerID)
}

// take removes all that waits.
func (b *exitBoard) take() []loops.Exit {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.queue
	b.queue = nil
	return taken
}

// drain tells exits in the order in which they were posted, until ctx is done.
func (b *exitBoard) drain(ctx context.Context, tell func(loops.Exit)) {
	for {
		for _, exit := range b.take() {
			tell(exit)
		}
		select {
		case <-b.posted:
		case <-ctx.Done():
			return
		}
	}
}
