package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// A machine's LAN gives it another address while it runs. Its key is its identity: the
// others follow, it is never silent, and its pod stays where it is and in reach.
func TestChangedAddressIsFollowed(t *testing.T) {
	c := need(t)
	g := c.newcomer(t, 1, "moves=yes")
	c.remove(t, "nomad", "caller")
	c.apply(t, 1, "alice", set(
		podSpec{name: "nomad", args: serve, require: "moves: yes"},
		podSpec{name: "caller", args: serve, memory: "32Mi"},
	))
	nomad := c.awaitReady(t, 2, "nomad")
	c.awaitReady(t, 2, "caller")
	c.awaitFetch(t, "caller", nomad.url(t), "hello from nomad")

	// The LAN is renumbered, too: the routes to the pod's machine can't stay as they are.
	node := c.lan(t).Node(guestNumber)
	var after netip.Addr
	var change []string
	for _, old := range []netip.Prefix{node.IPv6, node.IPv4} {
		raw := old.Addr().AsSlice()
		raw[len(raw)-1] += 100 // free: the lab numbers its machines from the bottom
		after, _ = netip.AddrFromSlice(raw)
		change = append(change, fmt.Sprintf("ip address delete %s dev eth0; ip address add %s/%d dev eth0", old, after, old.Bits()))
	}
	if err := c.lab.Within(guestNumber, exec.Command("sh", "-ec", strings.Join(change, "\n")).Run); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= machines; n++ {
		until(t, fmt.Sprintf("m%d follows the guest to %s", n, after), func() bool {
			m := c.machine(t, n, g.name)
			if m.GetPhase() == "silent" {
				t.Fatalf("m%d takes a machine with a new address for silent", n)
			}
			return m.GetAddress() == after.String() && m.GetConnected()
		})
	}
	c.awaitFetch(t, "caller", nomad.url(t), "hello from nomad")
	if now := c.awaitReady(t, 3, "nomad"); now.status("machine") != g.name || now.url(t) != nomad.url(t) {
		t.Errorf("the pod moved to %s at %s", now.status("machine"), now.url(t))
	}
}

// machine is what machine n knows about another one.
func (c *cluster) machine(t *testing.T, n int, name string) *apiv1.MachineInfo {
	t.Helper()
	got, err := c.lab.Client(n).Machines(context.WithoutCancel(t.Context()), &apiv1.MachinesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.GetMachines() {
		if m.GetName() == name {
			return m
		}
	}
	t.Fatalf("m%d knows no machine %s", n, name)
	return nil
}
