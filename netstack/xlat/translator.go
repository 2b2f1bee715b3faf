package xlat

import (
	"fmt"
	"net/netip"
)

// Protocol numbers that mean something to a translator.
const (
	protoHopByHop  = 0
	protoICMP4     = 1
	protoIGMP      = 2
	protoTCP       = 6
	protoUDP       = 17
	protoRouting   = 43
	protoFragment  = 44
	protoAH        = 51
	protoICMP6     = 58
	protoDstOpts   = 60
	protoMobility  = 135
	protoHIP       = 139
	protoShim6     = 140
	header4Len     = 20
	header6Len     = 40
	fragmentLen    = 8
	icmpLen        = 8
	answerHopLimit = 64
)

// Translator translates packets between IPv4 and IPv6. It is immutable and safe for
// concurrent use.
type Translator struct {
	cfg       Config
	prefix    prefix
	hasPrefix bool
	eam       table
	// The translator's own addresses; zero if there is none.
	own4 addr4
	own6 addr6
	// ceiling6 is the largest IPv6 packet made from an IPv4 packet that may be
	// fragmented.
	ceiling6 int
}

// New makes a Translator.
func New(cfg Config) (*Translator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the IPv4/IPv6 translator: %w", err)
	}
	t := &Translator{
		cfg:       cfg,
		hasPrefix: cfg.Prefix.IsValid(),
		eam:       newTable(cfg.Mappings),
		ceiling6:  min(cfg.LowestMTU6, cfg.MTU6),
	}
	if t.hasPrefix {
		t.prefix = newPrefix(cfg.Prefix)
	}
	if cfg.Translator4.IsValid() {
		t.own4 = toAddr4(cfg.Translator4)
	}
	if cfg.Translator6.IsValid() {
		t.own6 = toAddr6(cfg.Translator6)
	}
	return t, nil
}

// Translate translates a packet of either family and appends what it emits to out. The
// packet must not lie in out's buffers.
func (t *Translator) Translate(out *Out, packet []byte) Result {
	if len(packet) == 0 {
		return dropped(Malformed)
	}
	if packet[0]>>4 == 4 {
		return t.Translate4to6(out, packet)
	}
	return t.Translate6to4(out, packet)
}

// TranslateSuper translates a superpacket, as kernels hand them to drivers that offer
// segmentation offload: TCP or UDP headers in front of the payload of many packets, each
// with segment bytes of it, and in place of the transport checksum the sum of the
// pseudo-header. It emits one superpacket of the other family, or an answer. headers is
// the length of the transport header.
func (t *Translator) TranslateSuper(out *Out, packet []byte, headers, segment int) Result {
	if len(packet) == 0 || segment <= 0 || headers < 8 {
		return dropped(Malformed)
	}
	if packet[0]>>4 == 4 {
		return t.to6(out, packet, headers+segment, false)
	}
	return t.from6(out, packet, headers+segment)
}

// segmentable says whether kernels make superpackets of the protocol.
func segmentable(proto uint8) bool { return proto == protoTCP || proto == protoUDP }

// Embed returns the address that represents an IPv4 address under a prefix, whose length
// is one of RFC 6052's. It asks neither whether there are mappings nor whether the prefix
// may stand for the address.
func Embed(p netip.Prefix, a netip.Addr) netip.Addr {
	q := newPrefix(p)
	return q.embed(toAddr4(a)).netip()
}

// Map4 returns the IPv6 address that stands for a.
func (t *Translator) Map4(a netip.Addr) (netip.Addr, bool) {
	if !a.Is4() {
		return netip.Addr{}, false
	}
	b, ok := t.map4(toAddr4(a), true)
	return b.netip(), ok
}

// Map6 returns the IPv4 address that stands for a.
func (t *Translator) Map6(a netip.Addr) (netip.Addr, bool) {
	if !is6(a) {
		return netip.Addr{}, false
	}
	b, ok := t.map6(toAddr6(a))
	return b.netip(), ok
}

// map4 finds the IPv6 address for a, in the explicit mappings (if they may be used) and
// then under the prefix.
func (t *Translator) map4(a addr4, explicit bool) (addr6, bool) {
	if explicit {
		if b, ok := t.eam.to6(a); ok {
			return b, true
		}
	}
	if !t.hasPrefix || t.prefix.wellKnown && !a.global() {
		return addr6{}, false
	}
	return t.prefix.embed(a), true
}

// map6 finds the IPv4 address for a.
func (t *Translator) map6(a addr6) (addr4, bool) {
	if b, ok := t.eam.to4(a); ok {
		return b, true
	}
	if !t.hasPrefix {
		return 0, false
	}
	b, ok := t.prefix.extract(a)
	return b, ok && (!t.prefix.wellKnown || b.global())
}

// pair4 maps the two ends of an IPv4 packet. A mapped source that talks to a mapped
// destination came through a hairpin, and is shown under the prefix (RFC 7757, section
// 4.2.1). turned says that the packet is in an intrinsic hairpin. The packet inside an
// ICMP error travelled the other way, so there the roles are swapped by the caller.
func (t *Translator) pair4(src, dst addr4, turned bool) (s, d addr6, ok bool) {
	explicit := !turned
	if t.cfg.Hairpin == HairpinSimple && t.eam.has4(src) && t.eam.has4(dst) {
		explicit = false
	}
	s, ok = t.map4(src, explicit)
	if !ok {
		return s, d, false
	}
	d, ok = t.map4(dst, true)
	return s, d, ok
}

// errorSource6 is the IPv6 source of a translated ICMP error whose sender has no
// counterpart.
func (t *Translator) errorSource6(from addr4) (addr6, bool) {
	p := t.cfg.ErrorSources6
	if !p.IsValid() {
		return t.own6, t.own6 != addr6{}
	}
	base := toAddr6(p.Masked().Addr())
	host := spread(uint64(from))
	mask := mask6(p.Bits())
	return base.or(addr6{lo: host &^ mask.lo}), true
}

// errorSource4 is the IPv4 counterpart of errorSource6.
func (t *Translator) errorSource4(from addr6) (addr4, bool) {
	p := t.cfg.ErrorSources4
	if !p.IsValid() {
		return t.own4, t.own4 != 0
	}
	host := addr4(spread(from.hi ^ from.lo))
	return toAddr4(p.Masked().Addr()) | host&addr4(1<<(32-p.Bits())-1), true
}

// spread mixes the bits of v, so that senders spread over a pool (splitmix64's finish).
func spread(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
