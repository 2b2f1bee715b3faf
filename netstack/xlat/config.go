package xlat

import (
	"errors"
	"fmt"
	"net/netip"
)

// Limits of the configured sizes, in bytes.
const (
	minMTU4 = 68   // RFC 791
	minMTU6 = 1280 // RFC 8200

	maxMTU = 65535

	defaultMTU = 1500
)

// Hairpin says how packets between two mapped nodes on the IPv6 side are treated, when
// one addresses the other by its IPv4 address (RFC 7757, section 4).
type Hairpin uint8

// The ways to hairpin.
const (
	// HairpinIntrinsic: such a packet is turned around inside the translator.
	HairpinIntrinsic Hairpin = iota
	// HairpinSimple: a router on the IPv4 side sends it back, and the translator
	// recognises it by its two mapped addresses.
	HairpinSimple
	// HairpinOff: nothing is done about it.
	HairpinOff
)

// Mapping ties an IPv4 prefix to an IPv6 prefix (RFC 7757). The IPv6 suffix is at least
// as long as the IPv4 suffix.
type Mapping struct {
	IPv4, IPv6 netip.Prefix
}

// Config says how a Translator translates. The zero value of an optional field is its
// default.
type Config struct {
	// Prefix represents IPv4 addresses in IPv6 (RFC 6052); its length is 32, 40, 48, 56,
	// 64 or 96. Required unless there are Mappings.
	Prefix netip.Prefix
	// Mappings come before Prefix; the longest match wins. Optional.
	Mappings []Mapping
	// Translator4 and Translator6 are the translator's own addresses, from which it
	// sends ICMP errors. Optional: without one there are no answers in that family.
	Translator4, Translator6 netip.Addr
	// ErrorSources4 and ErrorSources6 are the addresses that stand for the senders of
	// ICMP errors that have no counterpart (RFC 6791). A sender always gets the same
	// one. Optional: the translator's own address.
	ErrorSources4, ErrorSources6 netip.Prefix
	// MTU4 and MTU6 are the MTUs of the next hop on either side. Optional: 1,500.
	MTU4, MTU6 int
	// LowestMTU6 is the largest IPv6 packet made from an IPv4 packet that may be
	// fragmented; a larger one is. Optional: 1,280.
	LowestMTU6 int
	// ComputeUDPChecksum makes the missing checksum of an unfragmented UDP packet over
	// IPv4. Otherwise such packets are refused.
	ComputeUDPChecksum bool
	// ClearTrafficClass sends zero where the type of service or traffic class would be
	// copied.
	ClearTrafficClass bool
	// Hairpin is how mapped nodes reach each other by IPv4 address. Optional: intrinsic.
	Hairpin Hairpin
}

// withDefaults returns a copy in which optional sizes are filled in.
func (c Config) withDefaults() Config {
	for _, f := range []struct {
		v   *int
		def int
	}{{&c.MTU4, defaultMTU}, {&c.MTU6, defaultMTU}, {&c.LowestMTU6, minMTU6}} {
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	return c
}

// validate checks a configuration with its defaults filled in.
func (c Config) validate() error {
	if !c.Prefix.IsValid() && len(c.Mappings) == 0 {
		return errors.New("no address can be translated: give a prefix or mappings")
	}
	return errors.Join(c.validatePrefix(), c.validateMappings(), c.validateAddresses(), c.validateSizes())
}

func (c Config) validatePrefix() error {
	if !c.Prefix.IsValid() {
		return nil
	}
	if !is6(c.Prefix.Addr()) {
		return fmt.Errorf("prefix %v: must be an IPv6 prefix", c.Prefix)
	}
	switch c.Prefix.Bits() {
	case 32, 40, 48, 56, 64:
	case 96:
		if c.Prefix.Addr().As16()[8] != 0 {
			return fmt.Errorf("prefix %v: bits 64 to 71 must be zero (RFC 6052)", c.Prefix)
		}
	default:
		return fmt.Errorf("prefix %v: the length must be 32, 40, 48, 56, 64 or 96 (RFC 6052)", c.Prefix)
	}
	return nil
}

func (c Config) validateMappings() error {
	seen := make(map[netip.Prefix]bool)
	for _, m := range c.Mappings {
		switch {
		case !m.IPv4.IsValid() || !m.IPv4.Addr().Is4():
			return fmt.Errorf("mapping %v to %v: the first must be an IPv4 prefix", m.IPv4, m.IPv6)
		case !m.IPv6.IsValid() || !is6(m.IPv6.Addr()):
			return fmt.Errorf("mapping %v to %v: the second must be an IPv6 prefix", m.IPv4, m.IPv6)
		case 32-m.IPv4.Bits() > 128-m.IPv6.Bits():
			return fmt.Errorf("mapping %v to %v: the IPv6 prefix is too long to hold all addresses", m.IPv4, m.IPv6)
		case seen[m.IPv4.Masked()] || seen[m.IPv6.Masked()]:
			return fmt.Errorf("mapping %v to %v: a prefix is mapped twice", m.IPv4, m.IPv6)
		}
		seen[m.IPv4.Masked()], seen[m.IPv6.Masked()] = true, true
	}
	return nil
}

func (c Config) validateAddresses() error {
	for _, a := range []struct {
		name string
		addr netip.Addr
		ok   bool
	}{
		{"translator's IPv4 address", c.Translator4, c.Translator4.Is4()},
		{"translator's IPv6 address", c.Translator6, is6(c.Translator6)},
		{"IPv4 source of errors", c.ErrorSources4.Addr(), c.ErrorSources4.Addr().Is4()},
		{"IPv6 source of errors", c.ErrorSources6.Addr(), is6(c.ErrorSources6.Addr())},
	} {
		if a.addr.IsValid() && !a.ok {
			return fmt.Errorf("%s: %v is of the wrong family", a.name, a.addr)
		}
	}
	return nil
}

func (c Config) validateSizes() error {
	for _, s := range []struct {
		name       string
		value, min int
	}{{"IPv4 MTU", c.MTU4, minMTU4}, {"IPv6 MTU", c.MTU6, minMTU6}, {"lowest IPv6 MTU", c.LowestMTU6, minMTU6}} {
		if s.value < s.min || s.value > maxMTU {
			return fmt.Errorf("%s: %d must be between %d and %d", s.name, s.value, s.min, maxMTU)
		}
	}
	return nil
}

func is6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }
