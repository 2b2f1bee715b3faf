package linux_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
)

// otherLAN is a second network of the machine: bridge br9, and link mv9 whose other end is in
// a namespace of its own, where a neighbour has an address on each.
const port = "$(ip -br link show master br9 | cut -d@ -f1)"

const otherLAN = `ip link add br9 type bridge; ip link set br9 address 02:00:00:00:00:99 mtu 1400 up
	ip address add 192.0.2.1/24 dev br9; ip address add 2001:db8:9::1/64 dev br9 nodad
	ip link add mv9 type veth peer name mv9peer; ip link set mv9 up; ip link set mv9peer up
	ip address add 198.51.100.1/24 dev mv9peer; ip address add 203.0.113.1/32 dev mv9peer`

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func storage() netstack.Interface {
	return netstack.Interface{Name: "storage", Attach: "br9", Addresses: prefixes("192.0.2.7/24", "2001:db8:9::7/64")}
}

func side() netstack.Interface {
	return netstack.Interface{
		Name: "side", Attach: "mv9", MTU: 1300, Addresses: prefixes("198.51.100.7/24"),
		Routes: []netstack.Route{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Via: netip.MustParseAddr("198.51.100.1")}},
	}
}

// further makes a machine with two more networks, and a pod that has an interface on each.
func further(t *testing.T) (m *machine, p pod) {
	c := newCluster(t, 1)
	m = c.machines[0]
	check(t, m.Routes(t.Context(), m.plan()))
	m.sh(t, otherLAN)
	p = m.attach(1)
	p.Interfaces = []netstack.Interface{side(), storage()}
	return m, m.attachAs(p.PodNetwork)
}

func TestPodHasFurtherInterfaces(t *testing.T) {
	m, p := further(t)
	for _, to := range []string{"192.0.2.1", "2001:db8:9::1"} { // the machine itself, on its bridge
		check(t, ping(t, p.path, netip.MustParseAddr(to), 56))
	}
	reaches(t, p.path, serve(t, m.node.Namespace, netip.MustParseAddr("192.0.2.1")), netip.MustParseAddr("192.0.2.7"))
	reaches(t, p.path, serve(t, m.node.Namespace, netip.MustParseAddr("203.0.113.1")), netip.MustParseAddr("198.51.100.7")) // by the route
	second := m.attach(2)
	second.Interfaces = []netstack.Interface{{Name: "side", Attach: "mv9", Addresses: prefixes("198.51.100.8/24")}}
	second = m.attachAs(second.PodNetwork)
	reaches(t, p.path, serve(t, second.path, netip.MustParseAddr("198.51.100.8")), netip.MustParseAddr("198.51.100.7")) // macvlan to macvlan
	reaches(t, p.path, serve(t, second.path, second.Address), p.Address)                                                // and the cluster as before

	if out := shell(t, p.path, "for l in storage side; do ip link show $l 2>/dev/null | grep -o 'mtu [0-9]*'; done"); out != "mtu 1400\nmtu 1300\n" {
		t.Errorf("MTUs %q", out)
	}
	if out := m.sh(t, "ip link show br9 2>/dev/null | grep -o 'mtu [0-9]*'; ip -6 address show dev "+port); out != "mtu 1400\n" {
		t.Errorf("the bridge's MTU, and addresses of its port: %q", out)
	}
	state, err := m.State(t.Context())
	check(t, err)
	if !strings.Contains(state, "  interface side on mv9\n") || !strings.Contains(state, "  interface storage on br9 by port sli") {
		t.Errorf("state:\n%s", state)
	}
}

// A second apply, and one by a new process, find everything in place; what somebody changed
// comes back.
func TestFurtherInterfacesAreAdoptedAndRepaired(t *testing.T) {
	m, p := further(t)
	m.restart()
	for range 2 {
		m.attachAs(p.PodNetwork)
		if m.Writes() != 0 {
			t.Fatalf("%d changes were made to what was in place", m.Writes())
		}
	}
	look := func() string {
		return shell(t, p.path, "ip -o link 2>/dev/null | awk '{ sub(/@.*/, \"\", $2); print $2, $5, $0 ~ /[<,]UP[,>]/, substr($0, match($0, /link.ether/), 28) }'; ip -br address show scope global | sed 's/@if[0-9]* */ /; /eth0/d'; ip route; ip -6 route show proto 83") +
			m.sh(t, "ip -o link show master br9 | awk '{ sub(/@.*/, \"\", $2); print $2, ($3 ~ /[<,]UP[,>]/) }'")
	}
	whole := look()
	for name, script := range map[string]string{
		"port deleted":     "ip link delete " + port,
		"port pulled out":  "ip link set " + port + " nomaster",
		"port down":        "ip link set " + port + " down",
		"inside, links":    "+ip link delete side; ip link delete storage",
		"inside, addreses": "+ip address flush dev side; ip address flush dev storage",
		"inside, routes":   "+ip route flush proto 83",
		"inside, kind":     "+ip link delete storage; ip link add storage type veth peer name x",
		"inside, MAC":      "+ip link set side down; ip link set side address 02:00:00:00:00:77; ip link set side up",
	} {
		t.Run(name, func(t *testing.T) {
			if inside, ok := strings.CutPrefix(script, "+"); ok {
				shell(t, p.path, inside)
			} else {
				m.sh(t, script)
			}
			if look() == whole {
				t.Fatal("no damage was done")
			}
			m.attachAs(p.PodNetwork)
			shell(t, p.path, "ip link delete x 2>/dev/null || true")
			if now := look(); now != whole {
				t.Errorf("repaired:\n%s\nbefore:\n%s", now, whole)
			}
			reaches(t, p.path, serve(t, m.node.Namespace, netip.MustParseAddr("203.0.113.1")), netip.MustParseAddr("198.51.100.7"))
		})
	}
}

// Changes are made in place: what stays keeps its connections, and eth0 is not touched.
func TestFurtherInterfacesChangeInPlace(t *testing.T) {
	m, p := further(t)
	at := netip.MustParseAddr("192.0.2.1")
	conn := dialEcho(t, p.path, echo(t, m.node.Namespace, at))
	p.Interfaces = []netstack.Interface{storage()}
	p.Interfaces[0].Addresses = prefixes("192.0.2.7/24", "192.0.2.8/24")
	m.attachAs(p.PodNetwork)
	check(t, conn.roundTrip())
	check(t, ping(t, m.node.Namespace, netip.MustParseAddr("192.0.2.8"), 56))
	if out := shell(t, p.path, "ip link; ip -6 address show dev storage scope global"); strings.Contains(out, "side") || strings.Contains(out, "2001:db8") {
		t.Errorf("what was taken out is still there:\n%s", out)
	}
	p.Interfaces[0].Attach = "mv9" // the same name by another link, of another kind
	m.attachAs(p.PodNetwork)
	if out := m.sh(t, "ip link show master br9") + shell(t, p.path, "ip -d link show storage"); strings.Contains(out, "sli") || !strings.Contains(out, "macvlan") {
		t.Errorf("the link was not made anew:\n%s", out)
	}
	check(t, m.Detach(t.Context(), p.ID))
	if out := m.sh(t, "ip -br link"); strings.Contains(out, "sl") {
		t.Errorf("links that are left:\n%s", out)
	}
}

// A pod whose link of the machine is missing is connected to the cluster, and the link is
// named; when it comes, and when it goes, the one who asked is told.
func TestMissingLinkIsNamedAndAwaited(t *testing.T) {
	c := newCluster(t, 1)
	m := c.machines[0]
	told := make(chan string, 16)
	m.cfg.Again = func(_ context.Context, id string) { told <- id }
	m.restart()
	check(t, m.Routes(t.Context(), m.plan()))
	p := m.attach(1)
	p.Interfaces = []netstack.Interface{storage()}
	lacks := func(why string) {
		t.Helper()
		_, err := m.Attach(t.Context(), p.PodNetwork)
		var missing *loops.LinkMissing
		if !errors.As(err, &missing) || missing.Error() != "interface storage attaches to br9: "+why {
			t.Fatalf("%v", err)
		}
	}
	lacks("there is no such link")
	reaches(t, m.node.Namespace, serve(t, p.path, p.Address), netstack.MachineAddress(m.own))
	m.sh(t, "ip link add br9 type bridge")
	lacks("that link is down")

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	defer func() { cancel(); <-done }()
	await := func(what string) {
		t.Helper()
		waitFor(t, what, func() bool {
			select {
			case id := <-told:
				return id == p.ID
			default:
				return false
			}
		})
	}
	m.sh(t, "ip link set br9 up; ip address add 192.0.2.1/24 dev br9")
	waitFor(t, "Run to watch", func() bool {
		m.sh(t, "ip address add 192.0.2.2/24 dev br9; ip address del 192.0.2.2/24 dev br9")
		return len(told) > 0
	})
	await("the link that came")
	m.attachAs(p.PodNetwork)
	check(t, ping(t, p.path, netip.MustParseAddr("192.0.2.1"), 56))
	m.sh(t, "ip link delete br9")
	await("the link that went")
	lacks("there is no such link")
	m.sh(t, "ip link add lo9 type veth peer name lo9p; ip link add br9 type bridge; ip link set br9 mtu 1300 up")
	await("the link that came again")
	p.Interfaces[0].MTU = 1301
	lacks("the MTU of that link is 1300, and the interface's 1301")
}
