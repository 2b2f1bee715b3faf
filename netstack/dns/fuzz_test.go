package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// FuzzAnswer: whatever a pod asks, the answer is one that it can read.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{
		"web.shop.svc.cluster.", "_http._tcp.web.shop.svc.cluster.", "web1.shop.pod.cluster.", "m1.machine.cluster.", "cluster.",
		"1.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa.", "a..cluster.", "*.svc.cluster.",
	} {
		for _, kind := range []uint16{dns.TypeAAAA, dns.TypeA, dns.TypeSRV, dns.TypePTR, dns.TypeANY, dns.TypeSOA} {
			raw, err := new(dns.Msg).SetQuestion(name, kind).Pack()
			if err == nil {
				f.Add(raw)
			}
		}
	}
	z := zone{directory: directory(true), cluster: clusterPrefix}
	s := &Server{cfg: Config{Cluster: clusterPrefix}, zone: z}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := new(dns.Msg)
		if q.Unpack(raw) != nil || len(q.Question) == 1 && !z.ours(dns.CanonicalName(q.Question[0].Name)) {
			return // miekg/dns answers what can't be read; what is not ours is forwarded
		}
		if len(q.Question) == 1 && q.Question[0].Qclass != dns.ClassINET {
			return
		}
		m := s.respond(t.Context(), netip.MustParseAddr("::1"), q)
		out, err := m.Pack()
		if err != nil {
			t.Fatalf("%v has the answer %v, which can't be sent: %v", q.Question, m, err)
		}
		if again := new(dns.Msg); again.Unpack(out) != nil || again.Id != q.Id || !again.Response {
			t.Fatalf("%v has the answer %v", q.Question, again)
		}
	})
}
