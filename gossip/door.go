package gossip

import (
	"sync"
	"time"
)

// The limits for newcomers: anyone who reaches the port may knock.
const (
	maxNewcomers = 8                // who are spoken to at a time
	knocksBurst  = 16               // who may knock at once
	knocksEvery  = time.Second / 4  // and one more after each
	joinTime     = 15 * time.Second // for a whole exchange
)

// door limits how many newcomers are spoken to, and how often: a token bucket.
type door struct {
	now func() time.Time

	mu     sync.Mutex
	inside int
	tokens float64
	filled time.Time
}

func newDoor(now func() time.Time) *door {
	return &door{now: now, tokens: knocksBurst, filled: now()}
}

func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.tokens = min(knocksBurst, d.tokens+float64(now.Sub(d.filled))/float64(knocksEvery))
	d.filled = now
	if d.tokens < 1 || d.inside >= maxNewcomers {
		return false
	}
	d.tokens--
	d.inside++
	return true
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
}
