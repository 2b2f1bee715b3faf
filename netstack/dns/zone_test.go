package dns

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack/service"
)

var clusterPrefix = netip.MustParsePrefix("fd12:3456:789a::/48")

func addr(s string) netip.Addr { return netip.MustParseAddr("fd12:3456:789a::" + s) }

// directory knows two pods of a service that is a name, one with an address, and a
// machine.
func directory(synced bool) *service.Directory {
	d := service.NewDirectory()
	pod := func(name, address, ipv4 string, ready bool) service.Pod {
		return service.Pod{
			Key: service.Key{Namespace: "shop", Name: name}, Address: addr(address), Machine: "m1", IPv4: ipv4,
			Labels: map[string]string{"app": "web"}, Ports: map[string]uint16{"http": 8080}, Serving: ready,
		}
	}
	ports := []service.Port{{Name: "http", Protocol: "tcp", Port: 80}}
	spec := func(name, address string) service.Spec {
		s := service.Spec{Key: service.Key{Namespace: "shop", Name: name}, Select: map[string]string{"app": "web"}, Ports: ports}
		if address != "" {
			s.Address = addr(address)
		}
		return s
	}
	none := spec("none", "")
	none.Select = map[string]string{"app": "nothing"}
	d.Update(service.Change{
		Pods:     []service.Pod{pod("web1", "11", "clat", true), pod("web2", "12", "masquerade", true), pod("web3", "13", "none", false)},
		Services: []service.Spec{spec("heads", ""), spec("web", "5:1"), none},
		Machines: []service.Machine{{Name: "m1", Address: addr("1")}}, Synced: synced,
	})
	return d
}

// show prints what a client sees of an answer.
func show(m *dns.Msg) string {
	parts := []string{dns.RcodeToString[m.Rcode]}
	for _, list := range [][]dns.RR{m.Answer, m.Extra} {
		var lines []string
		for _, rr := range list {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
			}
		}
		slices.Sort(lines) // the order is drawn
		parts = append(parts, lines...)
	}
	return strings.Join(parts, "; ")
}

func question(text string) *dns.Msg {
	name, kind, _ := strings.Cut(text, " ")
	return new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
}

func TestZone(t *testing.T) {
	for _, c := range []struct{ name, query, want, unsynced string }{
		{"a pod", "web1.shop.pod.cluster AAAA", "NOERROR; web1.shop.pod.cluster. 5 IN AAAA fd12:3456:789a::11", ""},
		{"a pod that is not ready", "web3.shop.pod.cluster AAAA", "NOERROR; web3.shop.pod.cluster. 5 IN AAAA fd12:3456:789a::13", ""},
		{"in any case", "Web1.Shop.POD.cluster AAAA", "NOERROR; Web1.Shop.POD.cluster. 5 IN AAAA fd12:3456:789a::11", ""},
		{"there is no IPv4", "web1.shop.pod.cluster A", "NOERROR", ""},
		{"a service is its ready pods", "heads.shop.svc.cluster AAAA",
			"NOERROR; heads.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::11; heads.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::12", ""},
		{"or its address", "web.shop.svc.cluster AAAA", "NOERROR; web.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::5:1", ""},
		{"a service without pods exists", "none.shop.svc.cluster AAAA", "NOERROR", ""},
		{"a machine", "m1.machine.cluster AAAA", "NOERROR; m1.machine.cluster. 5 IN AAAA fd12:3456:789a::1", ""},
		{"ports of pods", "_http._tcp.heads.shop.svc.cluster SRV",
			"NOERROR; _http._tcp.heads.shop.svc.cluster. 5 IN SRV 0 0 8080 web1.shop.pod.cluster.; _http._tcp.heads.shop.svc.cluster. 5 IN SRV 0 0 8080 web2.shop.pod.cluster.; web1.shop.pod.cluster. 5 IN AAAA fd12:3456:789a::11; web2.shop.pod.cluster. 5 IN AAAA fd12:3456:789a::12", ""},
		{"the port of an address", "_http._tcp.web.shop.svc.cluster SRV",
			"NOERROR; _http._tcp.web.shop.svc.cluster. 5 IN SRV 0 0 80 web.shop.svc.cluster.; web.shop.svc.cluster. 5 IN AAAA fd12:3456:789a::5:1", ""},
		{"a port by another protocol", "_http._udp.web.shop.svc.cluster SRV", "NXDOMAIN", "SERVFAIL"},
		{"a pod that is not there", "web9.shop.pod.cluster AAAA", "NXDOMAIN", "SERVFAIL"},
		{"below a pod", "x.web1.shop.pod.cluster AAAA", "NXDOMAIN", "SERVFAIL"},
		{"another kind", "web.shop.job.cluster AAAA", "NXDOMAIN", "SERVFAIL"},
		{"a namespace", "shop.pod.cluster AAAA", "NOERROR", ""},
		{"the root", "cluster AAAA", "NOERROR", ""},
		{"a pod's reverse", reverse("11") + " PTR", "NOERROR; " + reverse("11") + " 5 IN PTR web1.shop.pod.cluster.", ""},
		{"a service's reverse", reverse("5:1") + " PTR", "NOERROR; " + reverse("5:1") + " 5 IN PTR web.shop.svc.cluster.", ""},
		{"a machine's reverse", reverse("1") + " PTR", "NOERROR; " + reverse("1") + " 5 IN PTR m1.machine.cluster.", ""},
		{"nobody's reverse", reverse("99") + " PTR", "NXDOMAIN", "SERVFAIL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for synced, want := range map[bool]string{true: c.want, false: c.unsynced} {
				if want == "" {
					want = c.want
				}
				z := zone{directory(synced), clusterPrefix}
				q := question(c.query)
				if !z.ours(strings.ToLower(q.Question[0].Name)) {
					t.Fatal("this name is not ours")
				}
				if got := show(z.answer(q)); got != want {
					t.Errorf("synced %v:\ngot  %s\nwant %s", synced, got, want)
				}
			}
		})
	}
}

func reverse(host string) string {
	name, err := dns.ReverseAddr(addr(host).String())
	if err != nil {
		panic(err)
	}
	return name
}

func TestNegativeAnswersSayForHowLong(t *testing.T) {
	z := zone{directory(true), clusterPrefix}
	for _, q := range []string{"web9.shop.pod.cluster AAAA", "web1.shop.pod.cluster A", reverse("99") + " PTR"} {
		m := z.answer(question(q))
		if len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA || m.Ns[0].(*dns.SOA).Minttl != ttl {
			t.Errorf("%s: %v", q, m.Ns)
		}
	}
}

func TestNamesOfOthers(t *testing.T) {
	z := zone{directory(true), clusterPrefix}
	for _, name := range []string{"example.com.", "cluster.example.", "mycluster.", "1.100.51.198.in-addr.arpa.", "1.0.0.2.ip6.arpa.", "x.d.f.ip6.arpa."} {
		if z.ours(name) {
			t.Errorf("%s is taken for ours", name)
		}
	}
}
