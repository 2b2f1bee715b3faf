package linux_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// newLanCluster makes n machines in mode lan and one more that is a plain neighbour: it
// runs no peer and has no routes.
func newLanCluster(t testing.TB, n int) (machines []*machine, neighbour *machine) {
	c := newCluster(t, n+1)
	for _, m := range c.machines[:n] {
		prefix, err := m.LANPrefix()
		check(t, err)
		if want := m.node.IPv6.Masked(); prefix != want {
			t.Fatalf("the LAN is %s, not %s", prefix, want)
		}
		m.cfg.Mode, m.own = linux.Lan, prefix
		m.restart()
		check(t, m.Routes(t.Context(), loops.RoutePlan{}))
	}
	return c.machines[:n], c.machines[n]
}

func TestLanPodsAreNeighboursOfEverybody(t *testing.T) {
	machines, neighbour := newLanCluster(t, 2)
	a, b := machines[0].attach(1), machines[1].attach(2)
	begin := time.Now()
	reaches(t, neighbour.node.Namespace, serve(t, a.path, a.Address), neighbour.node.IPv6.Addr())
	reaches(t, a.path, serve(t, b.path, b.Address), a.Address)
	reaches(t, a.path, serve(t, neighbour.node.Namespace, neighbour.node.IPv6.Addr()), a.Address)
	// The kernel's own delay before a proxy answers would be 0.8 s at most, for each.
	if d := time.Since(begin); d > 700*time.Millisecond {
		t.Errorf("three first packets took %s", d)
	}
	if own := machines[0].sh(t, "ip -6 address show dev eth0 scope global"); !strings.Contains(own, machines[0].node.IPv6.String()) {
		t.Errorf("the machine's own address is gone:\n%s", own)
	}
	routes := strings.TrimSpace(machines[0].sh(t, "ip -6 route show type unreachable proto 83"))
	if want := "unreachable " + machines[0].cfg.Cluster.String(); !strings.HasPrefix(routes, want) || strings.Contains(routes, "\n") {
		t.Errorf("unreachable is %q, want the cluster's prefix alone", routes)
	}
}

// A neighbour that checks whether the address is still there asks by unicast.
func TestLanAnswersUnicastSolicitations(t *testing.T) {
	machines, neighbour := newLanCluster(t, 1)
	a := machines[0].attach(1)
	reaches(t, neighbour.node.Namespace, serve(t, a.path, a.Address), neighbour.node.IPv6.Addr())
	neighbour.sh(t, "ip -6 neighbour change "+a.Address.String()+" dev eth0 nud probe")
	waitFor(t, "the answer", func() bool {
		entry := neighbour.sh(t, "ip -6 neighbour show "+a.Address.String())
		if strings.Contains(entry, "FAILED") || strings.Contains(entry, "INCOMPLETE") {
			t.Fatalf("nobody answered: %s", entry)
		}
		return strings.Contains(entry, "REACHABLE")
	})
}

func TestLanPodMovesWithItsAddress(t *testing.T) {
	machines, neighbour := newLanCluster(t, 2)
	from, to := machines[0], machines[1]
	p := from.attach(1)
	reaches(t, neighbour.node.Namespace, serve(t, p.path, p.Address), neighbour.node.IPv6.Addr())
	check(t, from.Detach(t.Context(), p.ID))
	there := to.attachAs(p.PodNetwork)
	server := serve(t, there.path, p.Address)
	begin := time.Now()
	reaches(t, neighbour.node.Namespace, server, neighbour.node.IPv6.Addr())
	if d := time.Since(begin); d > 900*time.Millisecond {
		t.Errorf("the neighbour looked in the old place for %s", d)
	}
	if left := from.sh(t, "ip -6 neighbour show proxy"); left != "" {
		t.Errorf("the old machine still answers: %s", left)
	}
}

func TestLanSecondApplyWritesNothingAndRepairs(t *testing.T) {
	machines, neighbour := newLanCluster(t, 1)
	m := machines[0]
	p := m.attach(1)
	m.sh(t, "ip -6 neighbour add proxy fd99::1 dev eth0") // somebody else's
	m.restart()
	check(t, m.Routes(t.Context(), loops.RoutePlan{}))
	m.attachAs(p.PodNetwork)
	if m.Writes() != 0 {
		t.Fatalf("%d changes were made to what was in place", m.Writes())
	}
	m.sh(t, "ip -6 neighbour delete proxy "+p.Address.String()+" dev eth0; sysctl -qw net.ipv6.conf.all.proxy_ndp=0")
	check(t, m.Routes(t.Context(), loops.RoutePlan{}))
	m.attachAs(p.PodNetwork)
	reaches(t, neighbour.node.Namespace, serve(t, p.path, p.Address), neighbour.node.IPv6.Addr())
	if state, err := m.State(t.Context()); err != nil || !strings.Contains(state, "  proxy "+p.Address.String()+" dev eth0\n") {
		t.Errorf("state: %v\n%s", err, state)
	}
	m.sh(t, "ip link delete "+netstack.HostLink(m.name, p.ID))
	check(t, m.Detach(t.Context(), p.ID))
	if left := strings.TrimSpace(m.sh(t, "ip -6 neighbour show proxy")); left != "fd99::1 dev eth0 proxy" {
		t.Errorf("left: %q", left)
	}
}

func TestLanReportsDuplicates(t *testing.T) {
	machines, _ := newLanCluster(t, 2)
	first, second := machines[0], machines[1]
	p := first.attach(1)

	heard := make(chan netip.Addr, 16)
	second.cfg.Duplicate = func(a netip.Addr, mac netstack.MAC) {
		if mac.String() == first.node.MAC.String() {
			heard <- a
		}
	}
	second.restart()
	second.attachAs(p.PodNetwork)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	select {
	case a := <-heard:
		if a != p.Address {
			t.Errorf("reported %s, not %s", a, p.Address)
		}
	case err := <-done:
		t.Fatalf("no duplicate was reported: %v", err)
	}
	cancel()
	<-done
}
