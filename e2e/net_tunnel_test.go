package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Pods reach each other through tunnels over a LAN that carries nothing but UDP over
// IPv4, and `peer why` names a tunnel that fails, and on which side. Machines that have
// no tunnel are reached as before.
func TestTunnels(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/one", "pod/two", "pod/three")
	c.labelSides(t)
	c.must(t, 1, "machine", "label", "m3", "side=none")
	t.Cleanup(func() { c.must(t, 1, "machine", "label", "m3", "side-") })
	c.apply(t, 1, "alice", join(podSpec{name: "one", args: serve, require: "side: minority"}.String(),
		podSpec{name: "two", args: serve, require: "side: majority"}.String(), podSpec{name: "three", args: serve, require: "side: none"}.String()))
	one, two, three := c.awaitReady(t, 1, "one"), c.awaitReady(t, 1, "two"), c.awaitReady(t, 1, "three")
	for _, m := range []string{"m1", "m2"} {
		c.tunnel(t, m, "on")
		t.Cleanup(func() { c.tunnel(t, m, "auto") })
	}
	until(t, "m1 and m2 have tunnels", func() bool { return c.routesBy(t, 1, "slwg") == 1 && c.routesBy(t, 2, "slwg") == 1 })
	for _, pair := range [][2]seen{{one, two}, {two, one}, {one, three}, {three, two}} {
		until(t, pair[0].name()+" reaches "+pair[1].name(), func() bool { return pair[0].reaches(t, pair[1]) })
	}

	t.Run("nothing but UDP over IPv4", func(t *testing.T) { c.carriesOnlyUDP(t, one, two) })
	t.Run("a tunnel that fails is named", func(t *testing.T) { c.namesTheDeafSide(t, one, two) })
}

// carriesOnlyUDP has the LAN carry nothing else for a while: no pod notices.
func (c *cluster) carriesOnlyUDP(t *testing.T, one, two seen) {
	for n := 1; n <= 2; n++ {
		c.nft(t, n, `table inet onlyudp {
			chain in { type filter hook input priority 0; iifname "eth0" meta nfproto ipv6 drop; iifname "eth0" meta l4proto != udp drop; }
			chain out { type filter hook output priority 0; oifname "eth0" meta nfproto ipv6 drop; oifname "eth0" meta l4proto != udp drop; }
			chain forward { type filter hook forward priority 0; iifname "eth0" drop; oifname "eth0" drop; }
		}`)
	}
	err := c.lab.Within(1, func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(c.lab.Address(2), 7947).String(), time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err == nil {
		t.Error("TCP gets through a LAN that should carry UDP alone")
	}
	for range 5 {
		if !one.reaches(t, two) || !two.reaches(t, one) {
			t.Fatal("the pods don't reach each other")
		}
	}
	if err := one.pings(two.status("address"), "-M", "do", "-s", "1372"); err != nil { // 1,420 bytes
		t.Error(err)
	}
	for n := 1; n <= 2; n++ {
		c.nft(t, n, "delete table inet onlyudp")
	}
	for _, m := range []string{"m1", "m2"} {
		c.awaitPhase(t, 3, m, "ready")
	}
}

// namesTheDeafSide closes m2 to tunnels.
func (c *cluster) namesTheDeafSide(t *testing.T, one, two seen) {
	c.tunnel(t, "m2", "off")
	until(t, "m1 routes to m2 without a tunnel", func() bool { return c.routesBy(t, 1, "slwg") == 0 && one.reaches(t, two) })
	c.nft(t, 2, "table inet closed { chain in { type filter hook input priority 0; udp dport 51820 drop; }; }")
	defer c.nft(t, 2, "delete table inet closed")
	c.tunnel(t, "m2", "on")
	for _, m := range []string{"m1", "m2"} {
		said := ""
		until(t, "why names the tunnel and its side", func() bool {
			said = c.must(t, 3, "why", "machine/"+m)
			return strings.Contains(said, "fails on the side of m2: m2 has never received anything from m1, although m1 hears m2") &&
				strings.Contains(said, "to do: Let UDP to port 51820 into m2.")
		})
		if !strings.HasPrefix(said, "converged") {
			t.Errorf("the tunnel holds %s up: %s", m, said)
		}
	}
	if said := c.must(t, 3, "status", "machine/m2", "--net"); !strings.Contains(said, "tunnel to m1 at ") || !strings.Contains(said, " fails, heard never") {
		t.Errorf("the network of m2 does not show its tunnel:\n%s", said)
	}
}

// tunnel switches a machine's device.
func (c *cluster) tunnel(t *testing.T, machine, how string) {
	t.Helper()
	c.must(t, 1, "machine", "wireguard", machine, how)
}

// routesBy counts the routes of machine n to others through a link.
func (c *cluster) routesBy(t *testing.T, n int, link string) (count int) {
	t.Helper()
	err := c.lab.Within(n, func() error {
		out, err := exec.Command("ip", "-6", "route", "show", "proto", "83").Output()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "/96 dev "+link) {
				count++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func (c *cluster) nft(t *testing.T, n int, script string) {
	t.Helper()
	err := c.lab.Within(n, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s seen) name() string { return s.GetObject().GetKey().GetName() }

// reaches asks another pod for a page.
func (s seen) reaches(t *testing.T, other seen) bool {
	t.Helper()
	got, err := get(s.client(), other.url(t))
	return err == nil && strings.Contains(got, other.name())
}
