package fastpath

import "fmt"

// Counts are how many packets (superpackets count once) the programs have handled since
// they were loaded.
type Counts struct {
	Out6, In6 uint64 // of IPv6 programs, to and from the IPv4 internet
	Out4, In4 uint64 // of IPv4 programs, through the CLAT
	// Spoofed and Refused are IPv4 packets that a pod has put on its Ethernet link by
	// itself: from another's address, and of kinds that have to take the CLAT's link.
	Spoofed, Refused uint64
}

// Total is the number of packets translated.
func (c Counts) Total() uint64 { return c.Out6 + c.In6 + c.Out4 + c.In4 }

// Counts reads the counters.
func (p *Path) Counts() (c Counts, err error) {
	for i, field := range []*uint64{&c.Out6, &c.In6, &c.Out4, &c.In4, &c.Spoofed, &c.Refused} {
		var perCPU []uint64
		if err := p.objects.Counts.Lookup(uint32(i), &perCPU); err != nil {
			return c, fmt.Errorf("read the fast path's counters: %w", err)
		}
		for _, n := range perCPU {
			*field += n
		}
	}
	return c, nil
}
