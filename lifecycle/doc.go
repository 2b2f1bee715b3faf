// Package lifecycle is the engine of explicit lifecycles: an incremental
// computation over owned fields. A [Loop] declares steps; each [Step] says what it
// reads, what it consults and what it writes, how it is ordered and what it
// requires. From that alone follow ownership, the exact steps that an edit re-runs,
// the plan, and the explanation of whatever is not there yet.
//
// The package is pure: evaluating a graph on an object reads no clock and starts
// nothing. Whoever drives it (package peer) runs the steps that come out.
package lifecycle
