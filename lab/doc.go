// Package lab is a cluster on one computer: each machine a real peer in its own network
// namespace on a bridged LAN, with its own data directory and its own containerd
// namespace. Machines can be killed, started, cut off and made to lose packets.
//
// A lab lives in the kernel and in two directories, not in the process that made it:
// each command finds it there again, also after a crash, and Down removes it whole.
package lab
