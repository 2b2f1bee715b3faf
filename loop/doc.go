// Package loop is for programs that are control loops of a cluster: they attach to the
// peer of their machine, hook steps into the lifecycle of a kind, and are called with one
// object at a time.
//
// A [Loop] declares its steps; [Run] attaches it and serves its calls until the context
// ends, attaching again whenever the peer restarts. A step is given the fields that it
// reads and nothing else, and may return the fields that it declares as outputs, below
// status.loops.NAME. It has to be idempotent: it is called again after a restart, and
// when anything that it reads changes.
//
// A loop runs on every machine whose objects need it. While it is not attached, its
// steps wait, and `peer why` says on which machine. examples/loops/audit is a whole
// program; docs/guide/custom-step.md walks through it.
package loop
