package dns

import (
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/service"
)

// ttl is how long answers may be kept, in seconds: as long as it may take until a
// service's pods are others.
const ttl = 5

// zone answers for the names of the cluster.
type zone struct {
	directory Directory
	cluster   netip.Prefix
}

// found is what stands at a name: nothing of the asked type, perhaps, but the name exists.
type found struct {
	records []dns.RR
	extra   []dns.RR
}

const root = netstack.Domain + "."

// ours reports whether a name, in lower case, is the zone's to answer.
func (z zone) ours(name string) bool {
	if name == root || strings.HasSuffix(name, "."+root) {
		return true
	}
	_, _, ok := z.reverse(name)
	return ok
}

// answer makes the answer to a query for a name that is ours.
func (z zone) answer(query *dns.Msg) *dns.Msg {
	q := query.Question[0]
	name := strings.ToLower(dns.Fqdn(q.Name))
	m := new(dns.Msg).SetReply(query)
	m.Authoritative, m.RecursionAvailable = true, true
	f, exists := z.find(name, q)
	switch {
	case exists:
		m.Answer, m.Extra = f.records, f.extra
	case !z.directory.Synced():
		m.Rcode = dns.RcodeServerFailure
		m.Authoritative = false
		return m
	default:
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa(name)}
	}
	return m
}

// soa says for how long a name may be taken for absent (RFC 2308).
func soa(name string) dns.RR {
	at := root
	if !strings.HasSuffix(name, "."+root) && name != root {
		at = name
	}
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: at, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "names.machine." + root, Mbox: "nobody." + root,
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl,
	}
}

// find looks a name up, for the records of the asked type.
func (z zone) find(name string, q dns.Question) (found, bool) {
	if digits, whole, ok := z.reverse(name); ok {
		return z.findReverse(digits, whole, q)
	}
	labels := dns.SplitDomainName(strings.TrimSuffix(name, root))
	if len(labels) == 0 {
		if q.Qtype == dns.TypeSOA || q.Qtype == dns.TypeANY {
			return found{records: []dns.RR{soa(root)}}, true
		}
		return found{}, true
	}
	kind, rest := labels[len(labels)-1], labels[:len(labels)-1]
	switch {
	case kind == "machine":
		return z.findMachine(rest, q)
	case kind == "pod" && len(rest) <= 2:
		return z.findPod(rest, q)
	case kind == "svc" && len(rest) <= 4:
		return z.findService(rest, q)
	}
	return found{}, false
}

func (z zone) findMachine(labels []string, q dns.Question) (found, bool) {
	switch len(labels) {
	case 0:
		return found{}, true
	case 1:
		m, ok := z.directory.Machine(labels[0])
		return found{records: addresses(q, m.Address)}, ok
	}
	return found{}, false
}

func (z zone) findPod(labels []string, q dns.Question) (found, bool) {
	if len(labels) < 2 {
		return found{}, true
	}
	p, ok := z.directory.Pod(service.Key{Namespace: labels[1], Name: labels[0]})
	return found{records: addresses(q, p.Address)}, ok
}

// findService answers for NAME.NAMESPACE, _PROTOCOL in front of it, and _PORT in front
// of that.
func (z zone) findService(labels []string, q dns.Question) (found, bool) {
	if len(labels) < 2 {
		return found{}, true
	}
	n := len(labels)
	s, ok := z.directory.Service(service.Key{Namespace: labels[n-1], Name: labels[n-2]})
	switch {
	case !ok:
		return found{}, false
	case n == 2:
		return found{records: shuffled(serviceAddresses(s, q))}, true
	}
	protocol, isProtocol := strings.CutPrefix(labels[n-3], "_")
	if n == 3 {
		return found{}, isProtocol && hasPort(s, "", protocol)
	}
	port, isPort := strings.CutPrefix(labels[0], "_")
	if !isPort || !isProtocol || !hasPort(s, port, protocol) {
		return found{}, false
	}
	if q.Qtype != dns.TypeSRV && q.Qtype != dns.TypeANY {
		return found{}, true
	}
	return whereIs(s, port, protocol, q), true
}

// hasPort reports whether a service has a port; an empty name stands for any.
func hasPort(s service.Service, name, protocol string) bool {
	for _, p := range s.Ports {
		if p.Protocol == protocol && (name == "" || p.Name == name) {
			return true
		}
	}
	return false
}

// serviceAddresses are the service's own, or else those of its ready pods.
func serviceAddresses(s service.Service, q dns.Question) []dns.RR {
	if s.Address.IsValid() {
		return addresses(q, s.Address)
	}
	var list []netip.Addr
	for _, e := range s.Endpoints {
		list = append(list, e.Address)
	}
	return addresses(q, list...)
}

// whereIs makes SRV records: the service's address and port, or else those of each pod.
func whereIs(s service.Service, port, protocol string, q dns.Question) (f found) {
	for i, p := range s.Ports {
		if p.Name != port || p.Protocol != protocol {
			continue
		}
		if s.Address.IsValid() {
			f.add(q, serviceName(s.Key), s.Address, p.Port)
			continue
		}
		for _, e := range s.Endpoints {
			f.add(q, podName(service.Key{Namespace: s.Namespace, Name: e.Pod}), e.Address, e.Ports[i])
		}
	}
	f.records = shuffled(f.records)
	return f
}

func (f *found) add(q dns.Question, target string, a netip.Addr, port uint16) {
	f.records = append(f.records, &dns.SRV{Hdr: header(q.Name, dns.TypeSRV), Port: port, Target: target})
	f.extra = append(f.extra, &dns.AAAA{Hdr: header(target, dns.TypeAAAA), AAAA: a.AsSlice()})
}

// addresses makes AAAA records, if those were asked for.
func addresses(q dns.Question, list ...netip.Addr) []dns.RR {
	if q.Qtype != dns.TypeAAAA && q.Qtype != dns.TypeANY {
		return nil
	}
	var records []dns.RR
	for _, a := range list {
		if a.IsValid() {
			records = append(records, &dns.AAAA{Hdr: header(q.Name, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return records
}

// shuffled spreads clients that take the first record.
func shuffled(records []dns.RR) []dns.RR {
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	return records
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

func serviceName(k service.Key) string { return k.Name + "." + k.Namespace + ".svc." + root }
func podName(k service.Key) string     { return k.Name + "." + k.Namespace + ".pod." + root }
