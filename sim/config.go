package sim

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits of a simulation.
const (
	MaxPeers    = 64
	MaxDuration = 24 * time.Hour
)

// Config says what to simulate. It is not changed.
type Config struct {
	// Seed decides everything. Required; 0 is a seed like any other.
	Seed uint64
	// Peers is how many machines there are at first. Required.
	Peers int
	// Duration is how long people and faults are at work, in virtual time; then the
	// faults cease and the cluster has to come to rest. Required.
	Duration time.Duration
	// Calm leaves every fault out, so that only people act. Optional.
	Calm bool
	// Trace is told what happens, one line each. Optional.
	Trace io.Writer
}

func (c Config) validate() error {
	switch {
	case c.Peers < 1 || c.Peers > MaxPeers:
		return fmt.Errorf("configure simulation: %d peers; choose 1 to %d", c.Peers, MaxPeers)
	case c.Duration <= 0 || c.Duration > MaxDuration:
		return fmt.Errorf("configure simulation: a duration of %v; choose up to %v", c.Duration, MaxDuration)
	}
	return nil
}

// Command is the command line that repeats the simulation.
func (c Config) Command() string {
	calm := ""
	if c.Calm {
		calm = " --calm"
	}
	return fmt.Sprintf("peer sim --seed %d --peers %d --for %v%s --trace", c.Seed, c.Peers, c.Duration, calm)
}

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its number in the design.
	Invariant int
	// At is the virtual time since the start.
	At      time.Duration
	Message string
	// Replay is the command that shows it again, Trace what happened just before.
	Replay string
	Trace  []string
}

// Error says what was violated, and how to see it again.
func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %d violated after %v: %s\nreplay: %s", v.Invariant, v.At, v.Message, v.Replay)
}

// errNotMember is why a machine can't start: its own log does not know it.
var errNotMember = errors.New("the machine is no member of its own log")
