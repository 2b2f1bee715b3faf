// Package server answers the wire API (api/v1) from one peer's copy of the cluster.
// It turns requests into events of the core and immutable snapshots into answers, and
// passes on to another machine what only that machine can do: logs, exec, forward.
//
// Commands reach it over a Unix socket; other members reach the same service over
// mutual TLS, where only what is passed on to this machine is allowed.
package server
