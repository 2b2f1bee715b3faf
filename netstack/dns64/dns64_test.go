package dns64

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// zone is an upstream: for each "NAME TYPE" the lines of its answer. A line is a record,
// in the authority section if it begins with "!"; or "rcode NAME"; or "ad" or "tc".
type zone map[string][]string

func (z zone) ask(t *testing.T, asked *[]string) Upstream {
	return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		key := strings.ToLower(q.Question[0].Name) + " " + dns.TypeToString[q.Question[0].Qtype]
		*asked = append(*asked, key)
		lines, ok := z[key]
		if !ok {
			return nil, errors.New("upstream does not answer")
		}
		m := new(dns.Msg).SetReply(q)
		for _, line := range lines {
			apply(t, m, line)
		}
		return m, nil
	}
}

func apply(t *testing.T, m *dns.Msg, line string) {
	switch rcode, isRcode := strings.CutPrefix(line, "rcode "); {
	case isRcode:
		m.Rcode = dns.StringToRcode[rcode]
	case line == "ad":
		m.AuthenticatedData = true
	case line == "tc":
		m.Truncated = true
	default:
		text, authority := strings.CutPrefix(line, "!")
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		if authority {
			m.Ns = append(m.Ns, rr)
		} else {
			m.Answer = append(m.Answer, rr)
		}
	}
}

const (
	soa  = "!example. 900 IN SOA ns.example. hostmaster.example. 1 2 3 4 300"
	sigA = "a.example. 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 1 example. c2ln"
	sigC = "c.example. 60 IN RRSIG CNAME 8 2 60 20300101000000 20200101000000 1 example. c2ln"
)

var upstream = zone{
	"both.example. AAAA":   {"both.example. 60 IN AAAA 2001:db8::1", "ad"},
	"a.example. AAAA":      {soa, "ad"},
	"a.example. A":         {"a.example. 3600 IN A 198.51.100.1", "a.example. 60 IN A 198.51.100.2", sigA, "ad"},
	"nosoa.example. AAAA":  {},
	"nosoa.example. A":     {"nosoa.example. 3600 IN A 198.51.100.1"},
	"c.example. AAAA":      {"c.example. 60 IN CNAME a.example.", sigC, soa},
	"c.example. A":         {"c.example. 60 IN CNAME a.example.", sigC, "a.example. 60 IN A 198.51.100.2", sigA},
	"none.example. AAAA":   {"rcode NXDOMAIN", soa},
	"bogus.example. AAAA":  {"rcode SERVFAIL"},
	"bogus.example. A":     {"bogus.example. 60 IN A 198.51.100.1"},
	"bogusa.example. AAAA": {soa},
	"bogusa.example. A":    {"rcode SERVFAIL"},
	"broken.example. AAAA": {"rcode NOTIMP"},
	"broken.example. A":    {"broken.example. 60 IN A 198.51.100.1"},
	"empty.example. AAAA":  {soa},
	"empty.example. A":     {soa},
	"dead.example. AAAA":   {soa},
	"tc.example. AAAA":     {"tc"},
	"map.example. AAAA":    {"map.example. 60 IN AAAA ::ffff:198.51.100.9", "ad"},
	"map.example. A":       {"map.example. 60 IN A 198.51.100.9"},
	"mix.example. AAAA":    {"mix.example. 60 IN AAAA ::ffff:198.51.100.9", "mix.example. 60 IN AAAA 2001:db8::2", "ad"},
	"priv.example. AAAA":   {soa},
	"priv.example. A":      {"priv.example. 60 IN A 10.1.2.3", "priv.example. 60 IN A 8.8.8.8"},
	"a.example. MX":        {"a.example. 60 IN MX 5 mail.example."},
}

func resolver(t *testing.T, prefixes ...string) *Resolver {
	var cfg Config
	for _, p := range prefixes {
		cfg.Prefixes = append(cfg.Prefixes, netip.MustParsePrefix(p))
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// show prints what a client sees of an answer: code, flags and the answer's records.
func show(m *dns.Msg) string {
	parts := []string{dns.RcodeToString[m.Rcode]}
	if m.AuthenticatedData {
		parts = append(parts, "ad")
	}
	if m.Truncated {
		parts = append(parts, "tc")
	}
	for _, rr := range m.Answer {
		parts = append(parts, strings.ReplaceAll(strings.TrimPrefix(rr.String(), ";"), "\t", " "))
	}
	return strings.Join(parts, "; ")
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ name, query, want, asked string }{
		{"an IPv6 address is left alone", "both.example. AAAA",
			"NOERROR; ad; both.example. 60 IN AAAA 2001:db8::1", "AAAA"},
		{"made from A, for as long as neither changes, without signature or AD", "a.example. AAAA",
			"NOERROR; a.example. 300 IN AAAA 64:ff9b:1::c633:6401; a.example. 60 IN AAAA 64:ff9b:1::c633:6402", "AAAA A"},
		{"at most 600 s without an SOA", "nosoa.example. AAAA",
			"NOERROR; nosoa.example. 600 IN AAAA 64:ff9b:1::c633:6401", "AAAA A"},
		{"aliases stay, with their signatures", "c.example. AAAA",
			"NOERROR; c.example. 60 IN CNAME a.example.; c.example. 60 IN RRSIG CNAME 8 2 60 20300101000000 20200101000000 1 example. c2ln; a.example. 60 IN AAAA 64:ff9b:1::c633:6402", "AAAA A"},
		{"no such name", "none.example. AAAA", "NXDOMAIN", "AAAA"},
		{"a bogus AAAA answer", "bogus.example. AAAA", "SERVFAIL", "AAAA"},
		{"a bogus A answer", "bogusa.example. AAAA", "NOERROR", "AAAA A"},
		{"a server that does not know AAAA", "broken.example. AAAA",
			"NOERROR; broken.example. 60 IN AAAA 64:ff9b:1::c633:6401", "AAAA A"},
		{"no address of either kind", "empty.example. AAAA", "NOERROR", "AAAA A"},
		{"upstream fails half-way", "dead.example. AAAA", "NOERROR", "AAAA A"},
		{"a truncated answer", "tc.example. AAAA", "NOERROR; tc", "AAAA"},
		{"only unusable addresses", "map.example. AAAA",
			"NOERROR; map.example. 60 IN AAAA 64:ff9b:1::c633:6409", "AAAA A"},
		{"unusable among usable addresses", "mix.example. AAAA",
			"NOERROR; mix.example. 60 IN AAAA 2001:db8::2", "AAAA"},
		{"A is not touched", "a.example. A",
			"NOERROR; ad; a.example. 3600 IN A 198.51.100.1; a.example. 60 IN A 198.51.100.2; a.example. 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 1 example. c2ln", "A"},
		{"nor is anything else", "a.example. MX", "NOERROR; a.example. 60 IN MX 5 mail.example.", "MX"},
		{"the prefix can be learned", "ipv4only.arpa. AAAA",
			"NOERROR; ipv4only.arpa. 86400 IN AAAA 64:ff9b:1::c000:aa; ipv4only.arpa. 86400 IN AAAA 64:ff9b:1::c000:ab", ""},
		{"in any case", "IPv4Only.ARPA. AAAA",
			"NOERROR; IPv4Only.ARPA. 86400 IN AAAA 64:ff9b:1::c000:aa; IPv4Only.ARPA. 86400 IN AAAA 64:ff9b:1::c000:ab", ""},
		{"and its addresses", "ipv4only.arpa. A",
			"NOERROR; ipv4only.arpa. 86400 IN A 192.0.0.170; ipv4only.arpa. 86400 IN A 192.0.0.171", ""},
		{"it has nothing else", "ipv4only.arpa. MX", "NOERROR", ""},
		{"and nothing below", "x.ipv4only.arpa. AAAA", "NXDOMAIN", ""},
		{"its reverse", "170.0.0.192.in-addr.arpa. PTR",
			"NOERROR; 170.0.0.192.in-addr.arpa. 86400 IN PTR ipv4only.arpa.", ""},
		{"the reverse of a made-up address", "1.0.4.6.3.3.6.c.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa. PTR",
			"NOERROR; 1.0.4.6.3.3.6.c.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa. 86400 IN CNAME 1.100.51.198.in-addr.arpa.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, asked := resolve(t, resolver(t, "64:ff9b:1::/96"), c.query, nil)
			if got := show(answer); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if asked != c.asked {
				t.Errorf("upstream was asked for %q, want %q", asked, c.asked)
			}
		})
	}
}

// resolve asks "NAME TYPE" and returns the answer and which types upstream was asked for.
func resolve(t *testing.T, r *Resolver, question string, change func(*dns.Msg)) (*dns.Msg, string) {
	t.Helper()
	name, kind, _ := strings.Cut(question, " ")
	q := new(dns.Msg).SetQuestion(name, dns.StringToType[kind])
	if change != nil {
		change(q)
	}
	before := q.String()
	var asked []string
	answer, err := r.Resolve(t.Context(), q, upstream.ask(t, &asked))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Id != q.Id || !answer.Response || answer.Question[0] != q.Question[0] {
		t.Errorf("the answer is not one to the question: %v", answer)
	}
	if q.String() != before {
		t.Errorf("the query was changed from\n%s\nto\n%s", before, q)
	}
	for i, a := range asked {
		_, asked[i], _ = strings.Cut(a, " ")
	}
	return answer, strings.Join(asked, " ")
}

// TestValidatingClient: one that checks for itself must get what is signed; one that
// only wants to see signatures gets an address.
func TestValidatingClient(t *testing.T) {
	r := resolver(t, "64:ff9b:1::/96")
	for _, c := range []struct {
		do, cd bool
		want   string
	}{
		{true, true, "NOERROR; ad"},
		{true, false, "NOERROR; a.example. 300 IN AAAA 64:ff9b:1::c633:6401; a.example. 60 IN AAAA 64:ff9b:1::c633:6402"},
		{false, true, "NOERROR; a.example. 300 IN AAAA 64:ff9b:1::c633:6401; a.example. 60 IN AAAA 64:ff9b:1::c633:6402"},
	} {
		answer, _ := resolve(t, r, "a.example. AAAA", func(q *dns.Msg) {
			q.SetEdns0(1232, c.do)
			q.CheckingDisabled = c.cd
		})
		if got := show(answer); got != c.want {
			t.Errorf("DO %v, CD %v: got %s, want %s", c.do, c.cd, got, c.want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		prefixes []string
		query    string
		want     string
	}{
		{[]string{"2001:db8:1::/48", "2001:db8:2::/96"}, "map.example. AAAA",
			"NOERROR; map.example. 60 IN AAAA 2001:db8:1:c633:64:900::; map.example. 60 IN AAAA 2001:db8:2::c633:6409"},
		{[]string{"64:ff9b::/96"}, "priv.example. AAAA", "NOERROR; priv.example. 60 IN AAAA 64:ff9b::808:808"},
		{[]string{"64:ff9b::/96"}, "ipv4only.arpa. AAAA",
			"NOERROR; ipv4only.arpa. 86400 IN AAAA 64:ff9b::c000:aa; ipv4only.arpa. 86400 IN AAAA 64:ff9b::c000:ab"},
	} {
		answer, _ := resolve(t, resolver(t, c.prefixes...), c.query, nil)
		if got := show(answer); got != c.want {
			t.Errorf("%v, %s: got %s, want %s", c.prefixes, c.query, got, c.want)
		}
	}
}

func TestExcludedAddresses(t *testing.T) {
	r, err := New(Config{
		Prefixes:  []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/96")},
		Unusable4: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Unusable6: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := resolve(t, r, "priv.example. AAAA", nil)
	if got, want := show(answer), "NOERROR; priv.example. 60 IN AAAA 64:ff9b:1::808:808"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	answer, asked := resolve(t, r, "both.example. AAAA", nil)
	if got := show(answer); asked != "AAAA A" || got != "NOERROR" {
		t.Errorf("asked %q, got %s, want no address and no AD", asked, got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/96")}
	v4, v6 := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")
	for want, cfg := range map[string]Config{
		"no NAT64 prefix": {},
		"the length must": {Prefixes: []netip.Prefix{netip.MustParsePrefix("fd00::/95")}},
		"not an IPv6":     {Prefixes: good, Unusable6: []netip.Prefix{v4}},
		"not an IPv4":     {Prefixes: good, Unusable4: []netip.Prefix{v6}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", cfg, err, want)
		}
	}
}
