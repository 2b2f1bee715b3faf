package xlat

import "fmt"

// Verdict says what became of a packet.
type Verdict uint8

// The verdicts.
const (
	// Dropped: nothing was emitted.
	Dropped Verdict = iota
	// Translated: packets of the other family were emitted, to be forwarded in order.
	Translated
	// Answered: one ICMP error of the packet's own family was emitted, for its sender.
	Answered
	// Hairpinned: IPv6 packets were emitted for an IPv6 one: both ends are on that side.
	Hairpinned
	// Incomplete: the packet is a fragment of an ICMP message, which can be translated
	// only as a whole. Nothing was emitted.
	Incomplete
)

// String names the verdict.
func (v Verdict) String() string {
	names := [...]string{"dropped", "translated", "answered", "hairpinned", "incomplete"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Reason says why a packet was dropped or answered.
type Reason uint8

// The reasons. They are few and stable, so that they can label counters.
const (
	// None: the packet was translated.
	None Reason = iota
	// Malformed: too short, wrong version, inconsistent lengths, or a first fragment
	// that is too small to hold what must be changed in it.
	Malformed
	// BadChecksum: an IPv4 header or ICMP error whose checksum is wrong.
	BadChecksum
	// Unmapped: a source or destination has no counterpart in the other family.
	Unmapped
	// IllegalAddress: an address that a router must not forward (RFC 1812, section 5.3.7).
	IllegalAddress
	// Untranslatable: an ICMP message without counterpart, IGMP, or an error about an error.
	Untranslatable
	// NoChecksum: UDP over IPv4 without checksum that is not to be, or can't be, computed.
	NoChecksum
	// HopLimit: the hop limit or time to live ran out here.
	HopLimit
	// TooBig: larger than the next hop's MTU and not to be fragmented.
	TooBig
	// SourceRoute: a source route that has not been used up.
	SourceRoute
	// ExtensionHeader: an extension header behind a fragment header.
	ExtensionHeader
	// FragmentedICMP goes with Incomplete.
	FragmentedICMP

	reasons // how many there are
)

// Reasons is the number of different reasons, for arrays of counters.
const Reasons = int(reasons)

// String names the reason in a form fit for a metric's label.
func (r Reason) String() string {
	names := [...]string{"none", "malformed", "bad-checksum", "unmapped", "illegal-address",
		"untranslatable", "no-checksum", "hop-limit", "too-big", "source-route",
		"extension-header", "fragmented-icmp"}
	if int(r) < len(names) {
		return names[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Result is what became of one packet, and why if it was not translated.
type Result struct {
	Verdict Verdict
	Reason  Reason
}

func dropped(r Reason) Result { return Result{Verdict: Dropped, Reason: r} }

// String prints "translated" or "dropped: unmapped".
func (r Result) String() string {
	if r.Reason == None {
		return r.Verdict.String()
	}
	return r.Verdict.String() + ": " + r.Reason.String()
}
