// Package e2e proves on real machines what the guides promise. Its tests share one lab
// of three peers, each in its own network namespace, which run real containers; they
// speak to it as people do, with the program, and look at the kernel where a promise is
// about processes, addresses and namespaces.
//
// The files are ordered by what a user does: pods, edits, history, streams, why; then
// by what goes wrong: trouble at the start, joining, failures, partitions.
//
// What `peer why` says is one suite (go test ./e2e -run TestWhy): tables of causes in the
// files why_*, grouped by what they need of the lab. A new kind of trouble, or a new kind
// of object, is one more line.
//
// The tests need root. They remove what they made, and at their start what a run that
// was killed left behind.
package e2e
