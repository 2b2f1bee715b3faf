// Package policy says which connections a machine lets through to and from its pods. It
// touches nothing.
//
// A namespace that has an [Allow] is guarded: its pods open and accept only connections
// with other pods that an Allow of the namespace names. A connection between two guarded
// namespaces needs one in each. Each end is enforced by the machine of the pod there, so
// that a machine with an older view lets nothing through that the other end refuses.
//
// [Make] turns Allows and pods into the [Plan] of one machine, which prints one line per
// thing; package netstack/linux/policies makes the kernel agree.
package policy
