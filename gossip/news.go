package gossip

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"starling.dev/starling/crdt"
)

// news passes on which peers are connected, to a callback that may be slow. What changes
// back before it was told is not told: memory is bounded by the number of peers.
type news struct {
	wake chan struct{} // room for one: "there is news"

	mu   sync.Mutex
	now  map[crdt.MachineID]bool
	told map[crdt.MachineID]bool
}

func newNews() *news {
	return &news{wake: make(chan struct{}, 1), now: map[crdt.MachineID]bool{}, told: map[crdt.MachineID]bool{}}
}

func (n *news) set(id crdt.MachineID, connected bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now[id] = connected
	signal(n.wake)
}

// tell calls the callback until ctx ends.
func (n *news) tell(ctx context.Context, callback func(crdt.MachineID, bool)) {
	for {
		select {
		case <-n.wake:
		case <-ctx.Done():
			return
		}
		for _, c := range n.take() {
			if callback != nil {
				callback(c.id, c.connected)
			}
		}
	}
}

type connectedNow struct {
	id        crdt.MachineID
	connected bool
}

func (n *news) take() []connectedNow {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []connectedNow
	for id, connected := range n.now {
		if connected != n.told[id] {
			list = append(list, connectedNow{id, connected})
		}
	}
	maps.Copy(n.told, n.now)
	clear(n.now)
	maps.DeleteFunc(n.told, func(_ crdt.MachineID, connected bool) bool { return !connected })
	slices.SortFunc(list, func(a, b connectedNow) int { return bytes.Compare(a.id[:], b.id[:]) })
	return list
}
