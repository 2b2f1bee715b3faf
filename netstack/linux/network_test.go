package linux_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

func TestPodsReachEachOther(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	a, b := c.machines[0].attach(1), c.machines[0].attach(2)
	far := c.machines[1].attach(1)
	for _, p := range []pod{b, far} {
		reaches(t, a.path, serve(t, p.path, p.Address), a.Address)
		reaches(t, p.path, serve(t, a.path, a.Address), p.Address)
		check(t, ping(t, a.path, p.Address, 56))
		check(t, ping(t, a.path, p.Address, 60_000)) // in fragments
	}
}

// What is sent to or by a pod right after Attach must not be lost: TCP would wait a
// second before it tried again.
func TestFirstConnectionIsNotDelayed(t *testing.T) {
	c := newCluster(t, 1)
	for k := range 10 {
		server := c.machines[0].attach(2 * k)
		at := serve(t, server.path, server.Address)
		client := c.machines[0].attach(2*k + 1)
		begin := time.Now()
		reaches(t, client.path, at, client.Address)
		if d := time.Since(begin); d > 900*time.Millisecond {
			t.Errorf("pod %d: %s", k, d)
		}
	}
}

func TestMachineReachesPodsAndThemIt(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	near, far := c.machines[0], c.machines[1]
	p := near.attach(1)
	for _, m := range []*machine{near, far} {
		reaches(t, m.node.Namespace, serve(t, p.path, p.Address), netstack.MachineAddress(m.own))
		reaches(t, p.path, serve(t, m.node.Namespace, netstack.MachineAddress(m.own)), p.Address)
	}
}

func TestPodReachesTheOutside(t *testing.T) {
	c := newCluster(t, 2)
	m := c.machines[0]
	outside := c.machines[1].node // it knows nothing of the cluster
	p := m.attach(1)
	reaches(t, p.path, serve(t, outside.Namespace, outside.IPv4.Addr()), m.node.IPv4.Addr())
	reaches(t, p.path, serve(t, outside.Namespace, outside.IPv6.Addr()), m.node.IPv6.Addr())
	check(t, ping(t, p.path, outside.IPv4.Addr(), 60_000))
}

func TestPodWithoutIPv4HasNone(t *testing.T) {
	c := newCluster(t, 2)
	server := serve(t, c.machines[1].node.Namespace, c.machines[1].node.IPv4.Addr())
	p := c.machines[0].attach(1)
	reaches(t, p.path, server, c.machines[0].node.IPv4.Addr())
	p.IPv4 = "none"
	c.machines[0].attachAs(p.PodNetwork)
	if _, err := ask(t, p.path, server); !errors.Is(err, unix.ENETUNREACH) {
		t.Fatalf("without IPv4: %v", err)
	}
}

func TestUnusedAddressIsRefused(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	p := c.machines[0].attach(1)
	for _, m := range c.machines {
		nobody := netstack.RandomAddress(m.own, func() uint64 { return 77 })
		_, err := ask(t, p.path, netip.AddrPortFrom(nobody, 80))
		if !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("%s, which nobody has: %v", nobody, err)
		}
	}
}

func TestSecondApplyWritesNothing(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m := c.machines[0]
	p := m.attach(1)
	before := m.Writes()
	check(t, m.Routes(t.Context(), m.plan()))
	m.attachAs(p.PodNetwork)
	if n := m.Writes() - before; n != 0 {
		t.Fatalf("%d changes were made to what was in place", n)
	}
}

// A peer that was killed and started again finds its pods, their addresses and their
// connections as they were, and changes nothing.
func TestRestartAdopts(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m, far := c.machines[0], c.machines[1].attach(1)
	p, second := m.attach(1), m.attach(2)
	outside := serve(t, c.machines[1].node.Namespace, c.machines[1].node.IPv4.Addr())
	conn := dialEcho(t, p.path, echo(t, far.path, far.Address))

	m.restart()
	m.attachAs(p.PodNetwork) // before the routes are known again
	check(t, conn.roundTrip())
	m.attachAs(second.PodNetwork)
	check(t, m.Routes(t.Context(), m.plan()))
	if m.Writes() != 0 {
		t.Fatalf("%d changes were made to what was in place", m.Writes())
	}
	check(t, conn.roundTrip())
	reaches(t, second.path, outside, m.node.IPv4.Addr())
}

func TestManyPodsAtOnceGetDifferentIPv4(t *testing.T) {
	const many = 20
	c := newCluster(t, 2)
	m := c.machines[0]
	pods := make([]pod, many)
	var wg sync.WaitGroup
	for i := range pods {
		wg.Go(func() { pods[i] = m.attach(i) })
	}
	wg.Wait()
	outside := serve(t, c.machines[1].node.Namespace, c.machines[1].node.IPv4.Addr())
	for _, p := range pods {
		reaches(t, p.path, outside, m.node.IPv4.Addr())
	}
	out := m.sh(t, "ip -4 route show proto "+fmt.Sprint(netstack.RouteProtocol))
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		seen[strings.Fields(line)[0]] = true
	}
	if len(seen) != many {
		t.Fatalf("%d pods share %d IPv4 addresses:\n%s", many, len(seen), out)
	}
}

func TestMovedPodKeepsItsAddress(t *testing.T) {
	c := newCluster(t, 3)
	c.routeAll()
	from, to, client := c.machines[0], c.machines[1], c.machines[2]
	p := from.attach(1)
	asker := client.attach(1)
	moved := func(m *machine) loops.Route {
		return loops.Route{Prefix: netip.PrefixFrom(p.Address, 128), Machine: m.name, Via: m.node.IPv6.Addr()}
	}
	reaches(t, asker.path, serve(t, p.path, p.Address), asker.Address)

	check(t, from.Detach(t.Context(), p.ID))
	there := to.attachAs(p.PodNetwork)
	for _, m := range []*machine{from, client} {
		check(t, m.Routes(t.Context(), m.plan(moved(to))))
	}
	server := serve(t, there.path, p.Address)
	reaches(t, asker.path, server, asker.Address)
	reaches(t, from.attach(2).path, server, from.attach(2).Address)

	// Back again: the pod's being there outweighs a route that is out of date, and once
	// it is gone the route counts.
	check(t, to.Detach(t.Context(), p.ID))
	back := from.attachAs(p.PodNetwork)
	check(t, from.Routes(t.Context(), from.plan(moved(to))))
	reaches(t, from.attach(2).path, serve(t, back.path, p.Address), from.attach(2).Address)
	check(t, from.Detach(t.Context(), p.ID))
	if route := from.sh(t, "ip -6 route show "+p.Address.String()); !strings.Contains(route, "via "+to.node.IPv6.Addr().String()) {
		t.Fatalf("the way to a pod that left is %q", route)
	}
}

// Two machines that each believe the other to have a pod don't send its packets to and
// fro.
func TestPeerNeverForwardsFromClusterToCluster(t *testing.T) {
	c := newCluster(t, 3)
	c.routeAll()
	a, b := c.machines[0], c.machines[1]
	lost := netstack.RandomAddress(a.own, func() uint64 { return 5 })
	at := func(m *machine) loops.Route {
		return loops.Route{Prefix: netip.PrefixFrom(lost, 128), Machine: m.name, Via: m.node.IPv6.Addr()}
	}
	check(t, a.Routes(t.Context(), a.plan(at(b))))
	check(t, b.Routes(t.Context(), b.plan(at(a))))
	for _, m := range []*machine{a, b} {
		m.sh(t, "nft 'table inet count { chain in { type filter hook prerouting priority 0; iifname eth0 ip6 daddr "+lost.String()+" counter; }; }'")
	}
	if _, err := ask(t, a.attach(1).path, netip.AddrPortFrom(lost, 80)); err == nil {
		t.Fatal("somebody answered")
	}
	const none = "packets 0 "
	if out := b.sh(t, "nft list table inet count"); strings.Contains(out, none) {
		t.Fatalf("machine 2 got nothing:\n%s", out)
	}
	if out := a.sh(t, "nft list table inet count"); !strings.Contains(out, none) {
		t.Fatalf("machine 2 sent it back:\n%s", out)
	}
}

func TestMachinesKnownByOtherAddresses(t *testing.T) {
	c := newCluster(t, 2)
	for name, via := range map[string]func(*machine) netip.Addr{
		"IPv4":                    func(m *machine) netip.Addr { return m.node.IPv4.Addr() },
		"link-local":              func(m *machine) netip.Addr { return netstack.LinkLocal(m.own) },
		"link-local, with a link": func(m *machine) netip.Addr { return netstack.LinkLocal(m.own).WithZone("eth0") },
	} {
		t.Run(name, func(t *testing.T) {
			for i, m := range c.machines {
				plan := m.plan()
				plan.Routes[0].Via = via(c.machines[1-i])
				check(t, m.Routes(t.Context(), plan))
			}
			a, b := c.machines[0].attach(1), c.machines[1].attach(1)
			reaches(t, a.path, serve(t, b.path, b.Address), a.Address)
		})
	}
}

func TestUnreachableMachineIsNamedAndTheOthersRouted(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m := c.machines[0]
	plan := m.plan()
	elsewhere := netstack.MachinePrefix(c.prefix, []byte("elsewhere"))
	plan.Routes = append([]loops.Route{{Prefix: elsewhere, Machine: "m9", Via: netip.MustParseAddr("192.0.2.9")}}, plan.Routes...)
	err := m.Routes(t.Context(), plan)
	if err == nil || !strings.Contains(err.Error(), "machine m9 at 192.0.2.9") {
		t.Fatalf("error: %v", err)
	}
	a, b := m.attach(1), c.machines[1].attach(1)
	reaches(t, a.path, serve(t, b.path, b.Address), a.Address)
}

func TestDetachLeavesNothing(t *testing.T) {
	c := newCluster(t, 1)
	m := c.machines[0]
	check(t, m.Routes(t.Context(), m.plan()))
	before := m.sh(t, "ip -o link | wc -l; ip -6 route; ip -4 route")
	p := m.attach(1)
	for range 2 {
		check(t, m.Detach(t.Context(), p.ID))
	}
	if after := m.sh(t, "ip -o link | wc -l; ip -6 route; ip -4 route"); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	if _, err := os.Stat(p.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", p.path, err)
	}
}

func TestAttachRefusesWhatItCannotDo(t *testing.T) {
	c := newCluster(t, 1)
	address := netstack.RandomAddress(c.machines[0].own, func() uint64 { return 1 })
	for want, p := range map[string]loops.PodNetwork{
		"pod ID":       {ID: "../x", Address: address},
		"IPv6 address": {ID: "x", Address: netip.MustParseAddr("10.0.0.1")},
		"ipv4":         {ID: "x", Address: address, IPv4: "bridge"},
	} {
		if _, err := c.machines[0].Attach(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestAdvertiseAddrIsTheSourceTowardsTheTarget(t *testing.T) {
	c := newCluster(t, 2)
	m, other := c.machines[0], c.machines[1].node
	m.sh(t, "ip link add other type veth peer name otherpeer && ip link set other up && ip address add 10.0.2.15/24 dev other")
	for _, pair := range [][2]netip.Prefix{{other.IPv4, m.node.IPv4}, {other.IPv6, m.node.IPv6}} {
		a, err := m.AdvertiseAddr(pair[0].Addr())
		if err != nil || a != pair[1].Addr() {
			t.Errorf("towards %s: %s, %v", pair[0].Addr(), a, err)
		}
	}
	peer := netstack.LinkLocal(c.machines[1].own).WithZone("eth0")
	if a, err := m.AdvertiseAddr(peer); err != nil || !a.IsLinkLocalUnicast() {
		t.Errorf("towards %s: %s, %v", peer, a, err)
	}
	if _, err := m.AdvertiseAddr(netip.MustParseAddr("198.51.100.1")); err == nil {
		t.Error("there is a way to where no route leads")
	}
}

func TestConfigIsChecked(t *testing.T) {
	cluster := netstack.ClusterPrefix([]byte("cluster"))
	own := netstack.MachinePrefix(cluster, []byte("machine"))
	log := discard()
	for want, cfg := range map[string]linux.Config{
		"no logger":      {Cluster: cluster, Own: own, Scope: "s"},
		"cluster prefix": {Cluster: own, Own: own, Scope: "s", Log: log},
		"machine prefix": {Cluster: cluster, Own: netip.MustParsePrefix("fd00::/96"), Scope: "s", Log: log},
		"scope":          {Cluster: cluster, Own: own, Scope: "a.b", Log: log},
		"IPv4 range":     {Cluster: cluster, Own: own, Scope: "s", Log: log, IPv4: netip.MustParsePrefix("10.0.0.0/30")},
	} {
		if _, err := linux.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// echoConn is a connection that must survive.
type echoConn struct{ net.Conn }

func (c echoConn) roundTrip() error {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "ping"); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err
}

func dialEcho(t *testing.T, path string, to netip.AddrPort) (c echoConn) {
	check(t, in(t, path, func() (err error) {
		c.Conn, err = net.DialTimeout("tcp", to.String(), patience)
		return err
	}))
	t.Cleanup(func() { c.Close() })
	check(t, c.roundTrip())
	return c
}
