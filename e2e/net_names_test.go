package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"starling.dev/starling/netstack"
)

// service is a service of the pods with label app: web.
func service(name, more string) string {
	return fmt.Sprintf("kind: Service\nname: %s\nspec:\n  select: {app: web}\n  ports: {http: {port: 80, target: 8080}}\n%s", name, more)
}

// web is a pod behind it, ready when it answers.
func web(name string) string {
	return probed(name, serve, `readiness: {http: ":8080/ready", period: 200ms}`) + "  labels: {app: web}\n  partition: pinned\n"
}

func join(docs ...string) string { return strings.Join(docs, "---\n") }

// Pods find each other, services and machines by name, each from its own machine.
func TestNames(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/web1", "pod/web2", "pod/client", "service/web", "service/heads")
	c.apply(t, 2, "alice", join(web("web1"), web("web2"), podSpec{name: "client", args: serve}.String(),
		service("web", "  address: true\n"), service("heads", "")))
	pods := map[string]seen{}
	for _, name := range []string{"web1", "web2", "client"} {
		pods[name] = c.awaitReady(t, 1, name)
	}
	address := c.awaitService(t, 1, "web")

	c.awaitFetch(t, "client", "http://web/", "hello from web")
	c.awaitFetch(t, "client", "http://web1:8080/", "hello from web1")
	c.awaitFetch(t, "client", "http://web2.default.pod.cluster:8080/", "hello from web2")
	c.awaitFetch(t, "client", "http://heads:8080/", "hello from web")

	client := pods["client"]
	own := c.nameserver(t, client)
	both := []string{pods["web1"].status("address"), pods["web2"].status("address")}
	slices.Sort(both)
	want := map[string]string{
		"web.default.svc.cluster. AAAA":            address,
		"heads.default.svc.cluster. AAAA":          strings.Join(both, " "),
		"m1.machine.cluster. AAAA":                 c.nameserverOf(t, 1).String(),
		"_http._tcp.web.default.svc.cluster. SRV":  "80 web.default.svc.cluster.",
		reverseOf(t, address) + " PTR":             "web.default.svc.cluster.",
		reverseOf(t, both[0]) + " PTR":             nameAt(pods, both[0]) + ".default.pod.cluster.",
		"nobody.default.svc.cluster. AAAA":         "NXDOMAIN",
		"web.default.svc.cluster. A":               "",
		"_http._tcp.nope.default.svc.cluster. SRV": "NXDOMAIN",
	}
	for q, answer := range want {
		until(t, q, func() bool { return client.resolve(t, own, q) == answer })
	}
}

// Names of pods that can't be reached stay: a cut says nothing about what exists.
func TestACutTakesNoNamesAway(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/web1", "pod/client", "service/heads")
	c.labelSides(t)
	c.apply(t, 1, "alice", join(web("web1")+"  require: {side: majority}\n",
		podSpec{name: "client", args: serve, require: "side: minority"}.String(), service("heads", "")))
	far, client := c.awaitReady(t, 1, "web1"), c.awaitReady(t, 1, "client")
	own := c.nameserver(t, client)
	const q = "heads.default.svc.cluster. AAAA"
	until(t, "the service has its pod", func() bool { return client.resolve(t, own, q) == far.status("address") })
	c.awaitVoters(t)
	c.whole(t)
	c.laboratory(t, "partition", "1/2,3")
	for _, m := range []string{"m2", "m3"} {
		c.awaitPhase(t, 1, m, "silent")
	}
	for _, name := range []string{q, "web1.default.pod.cluster. AAAA"} {
		if got := client.resolve(t, own, name); got != far.status("address") {
			t.Errorf("while cut off, %s is %q, want %s", name, got, far.status("address"))
		}
	}
	c.laboratory(t, "heal")
	c.awaitPhase(t, 1, "m2", "ready")
}

// nameserver is the address at which the pod's machine answers for names.
func (c *cluster) nameserver(t *testing.T, pod seen) netip.Addr {
	t.Helper()
	return c.nameserverOf(t, pod.machine(t))
}

func (c *cluster) nameserverOf(t *testing.T, n int) netip.Addr {
	t.Helper()
	own, err := netip.ParsePrefix(c.current(t, 1, fmt.Sprintf("machine/m%d", n)).status("prefix"))
	if err != nil {
		t.Fatal(err)
	}
	return netstack.MachineAddress(own)
}

// resolve asks "NAME TYPE" from the pod, and returns what the records say, sorted; or the
// error's code.
func (s seen) resolve(t *testing.T, server netip.Addr, question string) string {
	t.Helper()
	name, kind, _ := strings.Cut(question, " ")
	var answer *dns.Msg
	err := s.within(func() error {
		conn, err := net.Dial("udp6", netip.AddrPortFrom(server, 53).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		answer, _, err = new(dns.Client).ExchangeWithConn(new(dns.Msg).SetQuestion(name, dns.StringToType[kind]), &dns.Conn{Conn: conn})
		return err
	})
	if err != nil {
		return err.Error()
	}
	if answer.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[answer.Rcode]
	}
	var values []string
	for _, rr := range answer.Answer {
		switch rr := rr.(type) {
		case *dns.AAAA:
			values = append(values, rr.AAAA.String())
		case *dns.SRV:
			values = append(values, fmt.Sprintf("%d %s", rr.Port, rr.Target))
		case *dns.PTR:
			values = append(values, rr.Ptr)
		}
	}
	slices.Sort(values)
	return strings.Join(values, " ")
}

func reverseOf(t *testing.T, address string) string {
	t.Helper()
	name, err := dns.ReverseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func nameAt(pods map[string]seen, address string) string {
	for name, p := range pods {
		if p.status("address") == address {
			return name
		}
	}
	return ""
}
