// Package xlat translates packets between IPv4 and IPv6 without state: the IP/ICMP
// translation algorithm of RFC 7915 with the address formats of RFC 6052, the explicit
// address mappings of RFC 7757 (with its hairpinning) and the sources for untranslatable
// ICMP errors of RFC 6791.
//
// A Translator is an immutable value made from a Config. It does no input or output and
// keeps no state, so one may serve any number of goroutines. Each of them brings an Out,
// which owns the buffers that packets are emitted into and the counter for IPv4
// identifications. One packet in gives none, one or several packets out, and a Result
// that says what became of it:
//
//	Translated   packets of the other family, to be sent on (several: fragments)
//	Answered     one ICMP error of the same family, to go back to the sender
//	Hairpinned   IPv6 packets that stay on the IPv6 side (RFC 7757, section 4)
//	Incomplete   a fragment of an ICMP message; reassemble it and try again
//	Dropped      nothing
//
// Incomplete exists because the ICMPv6 checksum covers the length of the whole message,
// which a fragment does not tell. RFC 7915 gives such packets up; a driver that can
// reassemble does better.
//
// Checksums of TCP, UDP and echo messages are updated from the difference between the old
// and the new pseudo-header (RFC 1624), so a packet that was damaged before translation
// is still seen to be damaged after it. ICMP errors are rebuilt, so theirs are verified
// and computed afresh.
//
// Reading order: translator.go, to6.go and to4.go (the two directions), icmp.go (errors
// with the packet inside), answer.go (errors of our own), then prefix.go and table.go
// (addresses).
package xlat
