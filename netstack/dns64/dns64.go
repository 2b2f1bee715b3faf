package dns64

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack/xlat"
)

// maxTTL bounds the lifetime of a made-up address when upstream does not say for how
// long there is no AAAA record (RFC 6147, section 5.1.7), in seconds.
const maxTTL = 600

// mapped are IPv4-mapped addresses, which no host can use over IPv6.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// Config says how addresses are made.
type Config struct {
	// Prefixes are those of the NAT64s (RFC 6052), in the order in which their addresses
	// are answered. Required. The well-known prefix gives no addresses for private ones.
	Prefixes []netip.Prefix
	// Unusable6 are IPv6 addresses that count as none in upstream's answers (RFC 6147,
	// section 5.1.4). IPv4-mapped ones always do. Optional.
	Unusable6 []netip.Prefix
	// Unusable4 are IPv4 addresses from which nothing is made. Optional.
	Unusable4 []netip.Prefix
}

func (c Config) validate() error {
	if len(c.Prefixes) == 0 {
		return errors.New("no NAT64 prefix")
	}
	for _, p := range c.Unusable6 {
		if !p.IsValid() || p.Addr().Is4() {
			return fmt.Errorf("unusable IPv6 addresses %v: not an IPv6 prefix", p)
		}
	}
	for _, p := range c.Unusable4 {
		if !p.IsValid() || !p.Addr().Is4() {
			return fmt.Errorf("unusable IPv4 addresses %v: not an IPv4 prefix", p)
		}
	}
	return nil
}

// Resolver answers with made-up addresses where there are no others. It is immutable and
// safe for concurrent use.
type Resolver struct {
	unusable4, unusable6 []netip.Prefix
	prefixes             []prefix // in the order of Config.Prefixes
}

// prefix is a NAT64's prefix, and what the NAT64 does with it.
type prefix struct {
	netip.Prefix
	*xlat.Translator
}

// Upstream asks a resolver a question and returns its answer. It must not keep or change
// the query.
type Upstream func(ctx context.Context, query *dns.Msg) (*dns.Msg, error)

// New makes a Resolver.
func New(cfg Config) (*Resolver, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure DNS64: %w", err)
	}
	r := &Resolver{unusable4: slices.Clone(cfg.Unusable4), unusable6: append([]netip.Prefix{mapped}, cfg.Unusable6...)}
	for _, p := range cfg.Prefixes {
		t, err := xlat.New(xlat.Config{Prefix: p})
		if err != nil {
			return nil, fmt.Errorf("configure DNS64: %w", err)
		}
		r.prefixes = append(r.prefixes, prefix{p, t})
	}
	return r, nil
}

// Resolve answers a client's query. The query is not changed, nor are upstream's
// messages.
func (r *Resolver) Resolve(ctx context.Context, query *dns.Msg, ask Upstream) (*dns.Msg, error) {
	if len(query.Question) != 1 || query.Question[0].Qclass != dns.ClassINET {
		return ask(ctx, query)
	}
	if answer := r.local(query); answer != nil {
		return answer, nil
	}
	first, err := ask(ctx, query)
	if err != nil || query.Question[0].Qtype != dns.TypeAAAA || !mayReplace(query, first) {
		return first, err
	}
	usable := r.usable(first)
	if hasAddress(usable, dns.TypeAAAA) {
		return usable, nil
	}
	second := query.Copy()
	second.Question[0].Qtype = dns.TypeA
	found, err := ask(ctx, second)
	if err != nil || found.Rcode != dns.RcodeSuccess {
		return usable, nil // no more is known than there was before
	}
	if answer := r.synthesize(query, first, found); answer != nil {
		return answer, nil
	}
	return usable, nil
}

// mayReplace decides whether addresses may be made in place of upstream's answer to a
// query for AAAA.
func mayReplace(query, first *dns.Msg) bool {
	if opt := query.IsEdns0(); opt != nil && opt.Do() && query.CheckingDisabled {
		return false // the client validates, and would find our answer bogus
	}
	switch first.Rcode {
	case dns.RcodeNameError, dns.RcodeServerFailure:
		return false
	}
	return !first.Truncated
}

// usable returns an answer without the addresses that count as none: the same message if
// there are no such, else a copy that can't be said to be authenticated any more.
func (r *Resolver) usable(m *dns.Msg) *dns.Msg {
	bad := func(rr dns.RR) bool {
		aaaa, ok := rr.(*dns.AAAA)
		return ok && within(r.unusable6, aaaa.AAAA)
	}
	if !slices.ContainsFunc(m.Answer, bad) {
		return m
	}
	c := m.Copy()
	c.AuthenticatedData = false
	c.Answer = slices.DeleteFunc(c.Answer, func(rr dns.RR) bool { return bad(rr) || signs(rr, dns.TypeAAAA) })
	return c
}

func hasAddress(m *dns.Msg, kind uint16) bool {
	return slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == kind })
}

// signs tells whether rr is a signature over records of a kind.
func signs(rr dns.RR, kind uint16) bool {
	sig, ok := rr.(*dns.RRSIG)
	return ok && sig.TypeCovered == kind
}

// within tells whether an address, in any form, lies in one of the prefixes.
func within(prefixes []netip.Prefix, ip []byte) bool {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return true // not an address at all: of no use
	}
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
		if p.Addr().Is4() {
			return p.Contains(a.Unmap())
		}
		return containsRaw(p, a)
	})
}

// containsRaw is Contains, but takes an IPv4-mapped address as the IPv6 address it is.
func containsRaw(p netip.Prefix, a netip.Addr) bool {
	x, y := p.Masked().Addr().As16(), a.As16()
	for i := range p.Bits() {
		if (x[i/8]^y[i/8])>>(7-i%8)&1 != 0 {
			return false
		}
	}
	return true
}

// synthesize makes the answer to a query for AAAA from upstream's answer for A; first is
// its answer for AAAA. The result is nil if no address can be made.
func (r *Resolver) synthesize(query, first, found *dns.Msg) *dns.Msg {
	answer := found.Copy()
	answer.Id, answer.Question = query.Id, slices.Clone(query.Question)
	answer.AuthenticatedData = false
	answer.CheckingDisabled = query.CheckingDisabled
	limit := lifetime(first)
	made := false
	answer.Answer = nil
	for _, rr := range found.Answer {
		if a, ok := rr.(*dns.A); ok {
			records := r.records(a, min(limit, a.Hdr.Ttl))
			made = made || len(records) > 0
			answer.Answer = append(answer.Answer, records...)
		} else if !signs(rr, dns.TypeA) {
			answer.Answer = append(answer.Answer, dns.Copy(rr)) // aliases on the way
		}
	}
	if !made {
		return nil
	}
	return answer
}

// records makes one AAAA record per prefix.
func (r *Resolver) records(a *dns.A, ttl uint32) []dns.RR {
	v4, ok := netip.AddrFromSlice(a.A.To4())
	if !ok || within(r.unusable4, a.A) {
		return nil
	}
	var records []dns.RR
	for _, p := range r.prefixes {
		if v6, ok := p.Map4(v4); ok {
			header := dns.RR_Header{Name: a.Hdr.Name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: ttl}
			records = append(records, &dns.AAAA{Hdr: header, AAAA: v6.AsSlice()})
		}
	}
	return records
}

// lifetime is for how many seconds there is no AAAA record, by an empty answer.
func lifetime(empty *dns.Msg) uint32 {
	for _, rr := range empty.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(soa.Hdr.Ttl, soa.Minttl)
		}
	}
	return maxTTL
}
