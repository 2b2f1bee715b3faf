// Package linux makes the kernel's network agree with the plans of package netstack.
//
// [Network] implements loops.Network for one machine. Every operation compares first
// and writes only what differs, so that it can be repeated at any time: to adopt what
// an earlier run left (nothing is kept on disk; the kernel is the record), and to
// repair what somebody flushed. [Network.Run] does the latter when the kernel
// reports it.
//
// Only what carries our mark is ever changed or removed: links whose name begins with
// "slp", routes of protocol 83, the nftables table "inet starling", namespaces named
// "starling.SCOPE.POD", and addresses of the cluster's prefix on lo, and the
// address that netstack.LinkLocal makes of the machine's prefix.
//
// All work is done in one network namespace, the machine's: that of the process, or
// the one that Config names. A thread enters another namespace only while it is
// locked to a goroutine of its own ([Within]).
package linux
