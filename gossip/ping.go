package gossip

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"starling.dev/starling/crdt"
)

// pings matches the pongs that come back with those who wait for them.
type pings struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan struct{}
}

func (p *pings) open() (nonce uint64, answered chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	answered = make(chan struct{})
	p.waiting[p.last] = answered
	return p.last, answered
}

func (p *pings) drop(nonce uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, nonce)
}

func (p *pings) answer(nonce uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered, ok := p.waiting[nonce]; ok {
		close(answered)
		delete(p.waiting, nonce)
	}
}

// Ping measures the round trip to a machine over its connection, queues and the peer's
// handler included: it answers "does it work", not "how far is it".
func (t *Transport) Ping(ctx context.Context, id crdt.MachineID) (time.Duration, error) {
	p, err := t.peerFor(id)
	if err != nil {
		return 0, err
	}
	nonce, answered := t.pings.open()
	defer t.pings.drop(nonce)
	start := time.Now()
	body := binary.BigEndian.AppendUint64(nil, nonce)
	if err := p.queue.push(frame{framePing, body}, true); err != nil {
		return 0, fmt.Errorf("ping %s: %w", id, err)
	}
	select {
	case <-answered:
		return time.Since(start), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("ping %s: %w", id, ctx.Err())
	}
}
