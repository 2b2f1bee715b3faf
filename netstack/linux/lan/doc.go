// Package lan builds a bridged LAN of machines on one computer, each in a network
// namespace of its own, for `peer lab` and for tests. The bridge has a namespace of
// its own too, so that the computer's own network is not touched at all.
//
// Nothing is kept in memory or on disk: everything carries the lab's name, and each
// operation starts from what the kernel has. So every operation can be repeated, by
// another process too, and [LAN.Remove] removes a lab whose maker was killed.
//
// A partition and loss are made in the machines' own namespaces, at the ingress of
// eth0 by the sender's MAC address: whatever a machine forwards for its pods is cut
// as well.
package lan
