// Package daemon is a running peer: it opens the data directory, builds the parts (store,
// core, gossip, network, containers, API) and runs them as tasks of one group until the
// context ends. It holds wiring and no logic of its own.
package daemon
