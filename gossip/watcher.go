package gossip

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"starling.dev/starling/crdt"
)

const (
	watchEvery = 250 * time.Millisecond
	// watchMissed is how many questions in a row a member may leave without an answer before
	// it is lost to those who watch it: with the wait for the last answer, 2.5 s. Membership
	// takes longer to be sure, since much more hangs on what it says.
	watchMissed = 8
)

// Watcher asks a few members whether their peers are there, more often than membership does.
// It is answered by the peer: the kernel of a machine whose peer has died does not do. It
// counts questions, not time, so that a pause of this machine is no silence of the others.
type Watcher struct {
	ask     func(context.Context, crdt.MachineID) error
	changed func()

	mu     sync.Mutex              // guards what follows
	missed map[crdt.MachineID]int  // questions in a row without an answer, of each that is watched
	lost   map[crdt.MachineID]bool // those with too many
}

// NewWatcher returns one that watches nobody. ask fails if the member gives no answer in time,
// as [Membership.Probe] does. changed is called when a member is lost or found; it must not
// block.
func NewWatcher(ask func(context.Context, crdt.MachineID) error, changed func()) *Watcher {
	return &Watcher{ask: ask, changed: changed, missed: map[crdt.MachineID]int{}, lost: map[crdt.MachineID]bool{}}
}

// String names the task.
func (w *Watcher) String() string { return "watch of members" }

// Watch says whom to ask, and nobody else.
func (w *Watcher) Watch(list []crdt.MachineID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := make(map[crdt.MachineID]bool, len(list))
	for _, id := range list {
		keep[id] = true
		w.missed[id] += 0 // begins with none
	}
	for id := range w.missed {
		if !keep[id] {
			delete(w.missed, id)
			delete(w.lost, id)
		}
	}
}

// Lost reports whether a member that is watched gives no answer.
func (w *Watcher) Lost(id crdt.MachineID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost[id]
}

// Run asks until the context ends. Nothing is sent while nobody is watched.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			for _, id := range w.watched() {
				g.Go(func() error {
					err := w.ask(ctx, id)
					if ctx.Err() == nil {
						w.note(id, err == nil)
					}
					return nil
				})
			}
		}
	})
	return g.Wait()
}

func (w *Watcher) watched() []crdt.MachineID {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]crdt.MachineID, 0, len(w.missed))
	for id := range w.missed {
		list = append(list, id)
	}
	return list
}

// note counts one answer, or that there was none.
func (w *Watcher) note(id crdt.MachineID, answered bool) {
	w.mu.Lock()
	missed, watched := w.missed[id]
	if missed++; answered {
		missed = 0
	}
	lost := missed >= watchMissed
	news := watched && lost != w.lost[id]
	if watched {
		w.missed[id], w.lost[id] = missed, lost
	}
	w.mu.Unlock()
	if news {
		w.changed()
	}
}

// Probe asks a member's peer, by one packet, whether it is there. It fails without an answer
// within Timing.ProbeTimeout.
func (m *Membership) Probe(_ context.Context, id crdt.MachineID) error {
	m.mu.Lock()
	s := m.serf
	m.mu.Unlock()
	if s == nil {
		return fmt.Errorf("probe %s: membership has not started", id)
	}
	if _, err := s.Memberlist().Ping(id.String(), nodeAddr(id)); err != nil {
		return fmt.Errorf("probe %s: %w", id, err)
	}
	return nil
}
