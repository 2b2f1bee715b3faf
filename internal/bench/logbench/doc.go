// Package logbench measures the replicated log as issue 3 names it: durable writes and
// local reads beside etcd, bytes stored for a change, memory and restart with many
// objects (each in a process of its own), and healing over real sockets.
package logbench
