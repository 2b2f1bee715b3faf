// Package peer is a peer's core: a deterministic state machine without I/O, and the
// one loop that drives it.
//
// [Core.Step] takes an event (a message, a timer, a request, a step's result, a
// change of membership) together with the time. [Core.Ready] says what that leads
// to: what to make durable, and THEN what to send, start, stop and answer.
// [Core.Advance] says that it was done. The core starts no goroutine and reads no
// clock, random source or environment; map order never reaches an effect.
//
// Read [Core.Step] first, then one file per concern: journal.go (the log), replicate.go
// (push and anti-entropy), members.go (liveness and voters), engine.go and execute.go
// (lifecycles), write.go (what people ask for). [Loop] drives a core with a real disk
// and transport; package sim drives many in virtual time.
package peer
