// Package clat gives pods that have only IPv6 a way to the IPv4 internet, and keeps it
// on their machine.
//
// A program in a pod that uses a literal IPv4 address finds 192.0.0.2 (RFC 7335) and a
// default route on a TUN link of its own. What it sends there is translated to IPv6 as a
// customer-side translator does (CLAT, RFC 6877), and then, by the machine's NAT64, to
// IPv4 with a source from a range that only this machine knows. A program that uses IPv6
// and names an IPv4 host by the NAT64 prefix (because DNS64 told it so) reaches the
// second translation directly, through the machine's own TUN link, to which the prefix is
// routed. The kernel then masquerades the range: ports, timeouts and helpers are its
// business, and nothing of all this is visible outside of the machine.
//
//	pod:      192.0.0.2 -> 198.51.100.1           TUN "clat"
//	CLAT:     64:ff9b:1:1::<c> -> 64:ff9b:1::198.51.100.1
//	NAT64:    <c> -> 198.51.100.1                 TUN of the machine, from the upper half
//	                                              of its IPv4 range
//	pod:      fd..:pod -> 64:ff9b:1::198.51.100.1 the pod's eth0, routed to the same TUN
//	NAT64:    <n> -> 198.51.100.1                 from the lower half
//	kernel:   masquerade
//
// Both translations are package xlat's. The one address of a pod can't serve both ways,
// since an answer must find back to the one it came from; hence two addresses per pod in
// the machine's range, and a CLAT address that exists only between the two translators.
//
// The links are opened with segmentation offload, so the kernel hands over superpackets
// of up to 64 KiB, which are translated whole and handed back whole: only headers are
// worked on. This is why the package reads the TUN itself. A driver that cuts
// superpackets and joins them again costs a multiple of the time, and megabytes per pod.
//
// Most packets never get here: package fastpath translates them inside the kernel, with
// the same result, where the kernel has what that takes (fast.go).
//
// Links outlive the process, so a restart of the peer finds the pods' addresses and
// routes in place. While no process is there, what the TUN links carry is lost, as on a
// cable that is pulled; the fast path goes on.
//
// Reading order: device.go (the task), path.go (the way of a packet), reassembly.go, then
// tun.go, virtio.go, kernel.go and fast.go.
package clat
