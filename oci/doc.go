// Package oci runs containers on containerd: it implements loops.Images and
// loops.Containers against a real machine.
//
// # Who owns what
//
// A [Runtime] is a connection to one containerd, in one containerd namespace that
// belongs to one peer. Everything that it knows about a container is written on the
// container itself, as labels (record.go), so a peer that starts again finds what
// its predecessor left and adopts it: there is no file or table to fall out of step.
// Containers outlive the peer and containerd, because containerd's shims are their
// parents.
//
// Each pod has a directory below Config.StateDir with the files that are mounted
// into its containers and with their logs.
//
// # Generations
//
// A container is never started twice. Each start is a new generation: a containerd
// container with a fresh snapshot, a number that only grows, and the hash of the
// spec that it was made from. decide (decide.go) compares what is wanted with the
// generations that exist; everything else follows from its answer. A changed
// container gets its successor created, up to the point where only the program
// remains to be executed, before the old one is stopped: the service gap is the time
// to stop one process and start another.
//
// # Exits
//
// The end of a task is settled once (settle.go): its exit code and whether the
// kernel ran out of memory are written on the container, its task is deleted, which
// also completes its log, and [Runtime.Watch] tells it. Exits that we caused are
// not told. An exit may be told again after a restart of the peer, never lost.
//
// # Output
//
// containerd's shim starts one small logger process per task (`peer logger`, see
// [RunLogger]), which survives both daemons. It writes segments bounded by size that
// anyone can read and follow ([Runtime.Logs]).
//
// # Which containerd
//
// The system's, if it answers at [SystemSocket]. Otherwise a [Supervisor] runs one
// with its own directories. That containerd is left running when the peer stops, and
// found again by the next peer through its pid file: a peer can die by SIGKILL, so
// finding it again must work anyway, and one way is better than two. It has a session
// of its own, so that neither a terminal nor a process group takes it down; a
// systemd unit of the peer needs KillMode=process for the same reason.
//
// Servers from 1.6 on are supported; the transfer, sandbox and mount services, which
// 1.6 lacks, are not used.
package oci
