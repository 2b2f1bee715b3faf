package dns64

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack/xlat"
)

// The name from which hosts learn the NAT64 prefix (RFC 7050), and its only addresses.
const (
	wellKnownName = "ipv4only.arpa."
	wellKnownTTL  = 86400
	reverseZone   = ".ip6.arpa."
)

func wellKnownAddresses() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}
}

// local answers what is ours to answer without asking anybody: nil for all else.
func (r *Resolver) local(query *dns.Msg) *dns.Msg {
	q := query.Question[0]
	name := strings.ToLower(dns.Fqdn(q.Name))
	switch {
	case name == wellKnownName:
		return r.wellKnown(query, q)
	case strings.HasSuffix(name, "."+wellKnownName):
		answer := reply(query) // there are no names below it (RFC 8880, section 7.2)
		answer.Rcode = dns.RcodeNameError
		return answer
	case isWellKnownReverse(name):
		answer := reply(query)
		if q.Qtype == dns.TypePTR {
			answer.Answer = []dns.RR{&dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: wellKnownName}}
		}
		return answer
	}
	if v4, ok := r.reverse(name); ok {
		answer := reply(query)
		answer.Answer = []dns.RR{&dns.CNAME{Hdr: header(q.Name, dns.TypeCNAME), Target: reverse4(v4)}}
		return answer
	}
	return nil
}

// wellKnown answers for ipv4only.arpa itself.
func (r *Resolver) wellKnown(query *dns.Msg, q dns.Question) *dns.Msg {
	answer := reply(query)
	for _, v4 := range wellKnownAddresses() {
		switch q.Qtype {
		case dns.TypeA:
			answer.Answer = append(answer.Answer, &dns.A{Hdr: header(q.Name, dns.TypeA), A: v4.AsSlice()})
		case dns.TypeAAAA:
			for _, p := range r.prefixes {
				v6 := xlat.Embed(p.Prefix, v4) // whatever the prefix may else stand for
				answer.Answer = append(answer.Answer, &dns.AAAA{Hdr: header(q.Name, dns.TypeAAAA), AAAA: v6.AsSlice()})
			}
		}
	}
	return answer
}

func reply(query *dns.Msg) *dns.Msg {
	answer := new(dns.Msg).SetReply(query)
	answer.RecursionAvailable = true
	return answer
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: wellKnownTTL}
}

func isWellKnownReverse(name string) bool {
	for _, a := range wellKnownAddresses() {
		if name == reverse4(a) {
			return true
		}
	}
	return false
}

// reverse4 is the name under which the reverse of an IPv4 address is found.
func reverse4(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa.", b[3], b[2], b[1], b[0])
}

// reverse finds the IPv4 address in the reverse name of an address under a prefix.
func (r *Resolver) reverse(name string) (netip.Addr, bool) {
	digits, ok := strings.CutSuffix(name, reverseZone)
	if !ok || len(digits) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		d := strings.IndexByte("0123456789abcdef", digits[2*i])
		if d < 0 || i < 31 && digits[2*i+1] != '.' {
			return netip.Addr{}, false
		}
		at := 31 - i // nibbles come last first
		b[at/2] |= byte(d) << (4 * (1 - at%2))
	}
	for _, p := range r.prefixes {
		if v4, ok := p.Map6(netip.AddrFrom16(b)); ok {
			return v4, true
		}
	}
	return netip.Addr{}, false
}
