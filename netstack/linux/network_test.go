package linux_test

import (
	"testing"
)

func TestPodsReachEachOther(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	a, b := c.machines[0].attach(1), c.machines[0].attach(2)
	far := c.machines[1].attach(1)
	for _, p := range []pod{b, far} {
		reaches(t, a.path, serve(t, p.path, p.Address), a.Address)
		reaches(t, p.path, serve(t, a.path, a.Address), p.Address)
	}
}

func TestPodReachesTheOutside(t *testing.T) {
	c := newCluster(t, 2)
	m := c.machines[0]
	check(t, m.Routes(t.Context(), m.plan()))
	outside := c.machines[1].node // not part of the cluster here: it has no routes to it
	p := m.attach(1)
	reaches(t, p.path, serve(t, outside.Namespace, outside.IPv4.Addr()), m.node.IPv4.Addr())
	reaches(t, p.path, serve(t, outside.Namespace, outside.IPv6.Addr()), m.node.IPv6.Addr())
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
