package netstack

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the plans that are made to testdata")

// samplePlans are the plans that testdata shows, by file.
func samplePlans() map[string]string {
	address := netip.MustParseAddr("fd12:3456:789a:a1b2:c3d4:e5f6:7:8")
	pod := Pod{ID: "0123456789abcdef", Scope: "m1", Address: address, MTU: 1500}
	withIPv4 := pod
	withIPv4.IPv4 = netip.MustParseAddr("10.63.4.5")

	further := pod
	further.Interfaces = []Interface{{
		Name: "lab", Attach: "eth1", AttachMTU: 1400, Addresses: []netip.Prefix{netip.MustParsePrefix("2001:db8:5::7/64")},
	}, {
		Name: "storage", Attach: "br0", Bridge: true, MTU: 8000, AttachMTU: 9000, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24")},
		Routes: []Route{
			{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.1")},
			{Prefix: netip.MustParsePrefix("203.0.113.0/24")},
		},
	}}

	other := MachinePrefix(cluster, []byte{0xb, 0xb, 0xb, 0xb, 0xb, 0xb})
	alone := Machine{Cluster: cluster, Own: own, Uplinks: []string{"eth0"}}
	busy := Machine{
		Cluster: cluster, Own: own, IPv4: netip.MustParsePrefix("10.63.0.0/16"),
		Uplinks: []string{"eth0", "eth1.5"}, AcceptRA: []string{"eth0"},
		Peers: []Peer{
			{Prefix: single(address.Next()), Via: netip.MustParseAddr("10.0.0.2"), Link: "eth1.5", Home: other},
			{Prefix: other, Via: netip.MustParseAddr("10.0.0.2"), Link: "eth1.5", Home: other},
			{Prefix: MachinePrefix(cluster, []byte{0xc, 0xc, 0xc, 0xc, 0xc, 0xc}), Via: netip.MustParseAddr("2001:db8::3"), Link: "eth0"},
			{Prefix: MachinePrefix(cluster, []byte{0xd, 0xd, 0xd, 0xd, 0xd, 0xd}), Via: netip.MustParseAddr("fe80::4%eth0"), Link: "eth0"},
		},
	}
	lan := Machine{
		Cluster: cluster, Own: own, LAN: netip.MustParsePrefix("2001:db8:1:2::/64"),
		IPv4: netip.MustParsePrefix("10.63.0.0/16"), Uplinks: []string{"eth0"},
	}
	lanPod := pod
	lanPod.Address, lanPod.ProxyOn = netip.MustParseAddr("2001:db8:1:2:3:4:5:6"), lan.Uplinks
	return map[string]string{
		"pod-lan.txt":       PodPlan(lanPod).String(),
		"machine-lan.txt":   MachinePlan(lan).String(),
		"pod.txt":           PodPlan(pod).String(),
		"pod-ipv4.txt":      PodPlan(withIPv4).String(),
		"pod-further.txt":   PodPlan(further).String(),
		"machine-alone.txt": MachinePlan(alone).String(),
		"machine.txt":       MachinePlan(busy).String(),
	}
}

func TestPlans(t *testing.T) {
	for name, got := range samplePlans() {
		file := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s (go test -rewrite writes it anew)\ngot:\n%swant:\n%s", file, got, want)
		}
	}
}
