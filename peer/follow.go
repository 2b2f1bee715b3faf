package peer

import (
	"starling.dev/starling/lifecycle"
)

// Objects returns the live objects of a kind, those on their way down included, sorted
// by key. Neither the slice nor the objects ever change, so that whoever follows the
// state keeps them, and finds out by comparing pointers what is new.
func (c *Core) Objects(kind string) []*lifecycle.Object { return c.engine.list(kind) }

// Synced reports whether this peer's copy of the state was found complete by another
// member since it started; with no other member it always is.
func (c *Core) Synced() bool { return len(c.trust.list) <= 1 || c.replica.synced }
