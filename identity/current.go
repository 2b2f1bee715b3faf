package identity

import (
	"crypto/ed25519"
	"sync/atomic"
)

// Current hands the latest snapshot from the goroutine that owns the log to all
// others. It implements [Trust], so that a handshake is judged by what is known now.
type Current struct{ latest atomic.Pointer[Snapshot] }

// NewCurrent begins with a snapshot.
func NewCurrent(s *Snapshot) *Current {
	c := &Current{}
	c.Set(s)
	return c
}

// Set replaces the snapshot; called by the log's owner whenever the log grew.
func (c *Current) Set(s *Snapshot) { c.latest.Store(s) }

// Snapshot returns the latest snapshot.
func (c *Current) Snapshot() *Snapshot { return c.latest.Load() }

// Admitted finds a machine by its key if it is a member now.
func (c *Current) Admitted(pub ed25519.PublicKey) (Machine, bool) {
	return c.Snapshot().Admitted(pub)
}
