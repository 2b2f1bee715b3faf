// Package fastpath translates packets between pods and the IPv4 internet inside the
// kernel, where that is simple, and so spares them the way through package clat's TUN
// links.
//
// The translation itself is ebpf/nat64.c, whose head says which packets it takes, where, and
// what it makes of them: what package xlat would. nat64.o is made from it by clang
// (`make generate`) and is embedded; a test of internal/gen proves it current.
//
// This package loads the object, keeps the pods in its maps, and hooks the programs to
// links: by tcx, or where the kernel has none (before 6.6) by a clsact queueing
// discipline. Hooks and maps outlive the process, so that pods keep their way to IPv4
// while a peer restarts; the next one replaces them in place.
//
// Every function works in the network namespace of the calling thread.
//
// Reading order: ebpf/nat64.c, path.go, hook.go.
package fastpath
