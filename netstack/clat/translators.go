package clat

import (
	"net/netip"
	"slices"

	"starling.dev/starling/netstack/xlat"
)

// upperBit is the bit of an IPv4 address that tells the halves of the range apart.
func (c Config) upperBit() (octet int, bit byte) {
	return c.IPv4.Bits() / 8, 1 << (7 - c.IPv4.Bits()%8)
}

// behind is the address behind a CLAT of the pod that has native as an IPv6 host: the
// same place in the upper half.
func (c Config) behind(native netip.Addr) netip.Addr {
	b := native.As4()
	octet, bit := c.upperBit()
	b[octet] |= bit
	return netip.AddrFrom4(b)
}

// fragmentHeader is what a fragment grows by in IPv6, beyond the larger IP header.
const fragmentHeader = 8

// clat configures the translator of one pod: its 192.0.0.2 is an address that only the
// two translators know. What it emits is on no link, so a pod's fragments need not be
// cut again for the sake of a fragment header.
func (c Config) clat(p *pod) xlat.Config {
	return xlat.Config{
		Prefix: c.Prefix,
		Mappings: []xlat.Mapping{{
			IPv4: netip.PrefixFrom(PodAddress, 32),
			IPv6: netip.PrefixFrom(xlat.Embed(between, p.behind), 128),
		}},
		Translator4: podTranslator,
		MTU4:        c.MTU, MTU6: c.MTU + fragmentHeader, LowestMTU6: c.MTU + fragmentHeader,
		ComputeUDPChecksum: true,
		Hairpin:            xlat.HairpinOff,
	}
}

// nat64 configures the machine's translator: one mapping for all pods behind their
// CLATs, one for each pod's own address, and one for each address that is led to. The whole way between it and a pod is on
// this machine, so packets that may be fragmented need not be cut to 1,280 bytes, but to
// what the pods' links carry. (A packet that may not be is passed on, and the kernel
// answers it if it does not fit into a pod's link.)
func (c Config) nat64(pods map[string]*pod, leads map[netip.Addr]netip.Addr) xlat.Config {
	octet, bit := c.upperBit()
	upper := c.IPv4.Masked().Addr().As4()
	upper[octet] |= bit
	half := netip.PrefixFrom(netip.AddrFrom4(upper), c.IPv4.Bits()+1)
	cfg := xlat.Config{
		Prefix:      c.Prefix,
		Mappings:    []xlat.Mapping{{IPv4: half, IPv6: netip.PrefixFrom(xlat.Embed(between, half.Addr()), 96+half.Bits())}},
		Translator4: c.translator(),
		Translator6: xlat.Embed(c.Prefix, c.translator()),
		MTU4:        c.MTU, MTU6: c.MTU, LowestMTU6: c.MTU,
		ComputeUDPChecksum: true,
		Hairpin:            xlat.HairpinOff,
	}
	for _, p := range pods {
		if p.mtu != 0 {
			cfg.LowestMTU6 = min(cfg.LowestMTU6, p.mtu)
		}
		cfg.Mappings = append(cfg.Mappings, xlat.Mapping{
			IPv4: netip.PrefixFrom(p.native, 32), IPv6: netip.PrefixFrom(p.Address, 128),
		})
	}
	for to, a := range leads {
		if !slices.ContainsFunc(cfg.Mappings, func(m xlat.Mapping) bool { return m.IPv6 == netip.PrefixFrom(to, 128) }) {
			cfg.Mappings = append(cfg.Mappings, xlat.Mapping{IPv4: netip.PrefixFrom(a, 32), IPv6: netip.PrefixFrom(to, 128)})
		}
	}
	return cfg
}
