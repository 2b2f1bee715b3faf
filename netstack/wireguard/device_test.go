package wireguard

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// pair are two machines on a LAN that carries nothing but UDP over IPv4.
func pair(t *testing.T) (a, b *machine) {
	x, y := space(t, "a"), space(t, "b")
	connect(t, x, "lan", "10.0.0.1/24", y, "lan", "10.0.0.2/24")
	for _, s := range []string{x, y} {
		run(t, s, `nft -f - <<-"END"
			table inet onlyudp {
				chain in { type filter hook input priority 0; iifname "lan" meta nfproto ipv6 drop; iifname "lan" meta l4proto != udp drop; }
				chain out { type filter hook output priority 0; oifname "lan" meta nfproto ipv6 drop; oifname "lan" meta l4proto != udp drop; }
			}
			END`)
	}
	return newMachine(t, 1, x, "10.0.0.1"), newMachine(t, 2, y, "10.0.0.2")
}

// TestTunnel: machines whose LAN carries no IPv6 reach what is behind each other, packets
// of the device's whole MTU included; and again after one of them has started anew.
func TestTunnel(t *testing.T) {
	a, b := pair(t)
	a.meet(b)
	b.meet(a)
	until(t, "a reaches b", func() bool { return a.reaches(b) })
	if _, err := try(a.path, fmt.Sprintf("ping -6 -c1 -W2 -M do -s %d %s", 1500-overhead-48, b.inside)); err != nil {
		t.Errorf("a packet of the link's MTU: %v", err)
	}
	for _, m := range [][2]*machine{{a, b}, {b, a}} {
		list, err := m[0].device.Tunnels()
		check(t, err)
		if len(list) != 1 || list[0].Machine != m[1].name || !list[0].Works(time.Now()) || list[0].Sent == 0 {
			t.Errorf("%s says %+v of a tunnel that works", m[0].name, list)
		}
	}
	b.stop()
	b.start()
	b.meet(a)
	until(t, "a reaches b, which has started anew", func() bool { return a.reaches(b) })
	// Nobody is a peer for ever.
	a.meet()
	if list, err := a.device.Tunnels(); len(list) != 0 || err != nil {
		t.Errorf("tunnels %v, %v after the last peer went", list, err)
	}
	if a.reaches(b) {
		t.Error("a peer that was taken away is reached")
	}
}

// TestBehindNAT: b can't reach a, until a has spoken: then it answers where that came from.
func TestBehindNAT(t *testing.T) {
	x, nat, y := space(t, "a"), space(t, "nat"), space(t, "b")
	connect(t, x, "lan", "192.168.1.2/24", nat, "in", "192.168.1.1/24")
	connect(t, nat, "out", "203.0.113.1/24", y, "lan", "203.0.113.2/24")
	run(t, x, "ip route add default via 192.168.1.1")
	run(t, nat, `echo 1 >/proc/sys/net/ipv4/ip_forward
		nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority srcnat; }; add rule ip nat post oifname out masquerade random'`)
	a, b := newMachine(t, 1, x, "192.168.1.2"), newMachine(t, 2, y, "203.0.113.2")
	b.meet(a)
	a.meet(b)
	until(t, "b reaches a", func() bool { return b.reaches(a) })
	list, err := b.device.Tunnels()
	check(t, err)
	if got := list[0].Seen.Addr().String(); got != "203.0.113.1" {
		t.Errorf("b sees a at %s, want the NAT's address", got)
	}
	// Being told again what it knows already makes b forget nothing.
	b.meet(a)
	if !b.reaches(a) {
		t.Error("b has forgotten where a is")
	}
}

// TestBrokenTunnelIsSeen: what a firewall swallows is seen at the end that does not hear
// the other, and neither end takes the tunnel for a working one.
func TestBrokenTunnelIsSeen(t *testing.T) {
	a, b := pair(t)
	run(t, b.path, `nft 'add rule inet onlyudp in iifname lan udp dport 51820 drop'`)
	a.meet(b)
	b.meet(a)
	until(t, "a hears b", func() bool { return a.hears(b) })
	if b.hears(a) {
		t.Error("b hears a through a closed firewall")
	}
	for _, m := range []*machine{a, b} {
		list, err := m.device.Tunnels()
		check(t, err)
		if len(list) != 1 || list[0].Works(time.Now()) {
			t.Errorf("%s takes the tunnel for a working one: %+v", m.name, list)
		}
	}
}

// TestDeviceIsRepaired: a link that somebody deletes comes back with its peers.
func TestDeviceIsRepaired(t *testing.T) {
	a, b := pair(t)
	a.meet(b)
	b.meet(a)
	until(t, "a reaches b", func() bool { return a.reaches(b) })
	run(t, a.path, "ip link del slwg")
	until(t, "the link is made anew", func() bool {
		check(t, a.device.Repair())
		_, err := try(a.path, "ip link show slwg up mtu 1420 2>/dev/null || ip link show slwg")
		return err == nil
	})
	run(t, a.path, fmt.Sprintf("ip -6 route replace fd00:2::/96 dev slwg src %s", a.inside))
	until(t, "a reaches b again", func() bool { return a.reaches(b) })
	run(t, a.path, "ip link set slwg down mtu 1300")
	check(t, a.device.Repair())
	if out, err := try(a.path, "ip -o link show slwg"); err != nil || !strings.Contains(string(out), "mtu 1420") || !strings.Contains(string(out), "UP") {
		t.Errorf("%s (%v)", out, err)
	}
}

func TestOff(t *testing.T) {
	a, _ := pair(t)
	for range 2 {
		_, err := a.device.Ensure(false)
		check(t, err)
	}
	if _, err := try(a.path, "ip link show slwg"); err == nil {
		t.Error("the link is still there")
	}
	check(t, a.device.SetPeers(nil))
	if err := a.device.SetPeers([]Peer{{}}); err == nil {
		t.Error("a device that is off takes peers")
	}
	facts, err := a.device.Ensure(true)
	check(t, err)
	if facts.MTU != 1420 || facts.Port != DefaultPort || facts.Public != a.private.PublicKey() {
		t.Errorf("%+v", facts)
	}
}

// TestPortInUse says what is in the way.
func TestPortInUse(t *testing.T) {
	a, _ := pair(t)
	other, err := New(Config{Machine: a.path, Link: "other", Private: a.private, Underlay: a.device.cfg.Underlay, Log: a.device.cfg.Log})
	check(t, err)
	_, err = other.Ensure(true)
	if err == nil || !strings.Contains(err.Error(), "UDP port 51820 is in use") {
		t.Errorf("%v", err)
	}
	_, err = other.Ensure(false)
	check(t, err)
}

func TestSmallUnderlay(t *testing.T) {
	a, _ := pair(t)
	d, err := New(Config{Private: a.private, Underlay: func() (int, error) { return 1300, nil }, Log: a.device.cfg.Log})
	check(t, err)
	if _, err := d.Ensure(true); err == nil || !strings.Contains(err.Error(), "packets of 1300 bytes, and tunnels need 1360") {
		t.Errorf("%v", err)
	}
}

// TestPlan: an endpoint is given when the device has none, when the machine has moved, or
// when the tunnel is dead.
func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	key, err := NewKey(rand.Reader)
	check(t, err)
	at, moved := netip.MustParseAddrPort("10.0.0.1:51820"), netip.MustParseAddrPort("10.0.0.9:51820")
	learned := netip.MustParseAddrPort("203.0.113.1:4444")
	want := map[Key]Peer{key: {Public: key, Endpoint: at}}
	for name, c := range map[string]struct {
		have   []state
		before map[Key]Peer
		want   netip.AddrPort
	}{
		"new":                   {nil, nil, at},
		"no endpoint":           {[]state{{Public: key}}, want, at},
		"learned, alive":        {[]state{{Public: key, Endpoint: learned, Handshake: now.Add(-time.Minute)}}, want, netip.AddrPort{}},
		"adopted, alive":        {[]state{{Public: key, Endpoint: learned, Handshake: now.Add(-time.Minute)}}, nil, netip.AddrPort{}},
		"learned, dead":         {[]state{{Public: key, Endpoint: learned, Handshake: now.Add(-time.Hour)}}, want, at},
		"alive, but it is told": {[]state{{Public: key, Endpoint: learned, Handshake: now}}, map[Key]Peer{key: {Public: key, Endpoint: moved}}, at},
	} {
		got := plan(c.have, c.before, want, now)
		if len(got) != 1 || got[0].Endpoint != c.want || got[0].Remove {
			t.Errorf("%s: %+v, want endpoint %v", name, got, c.want)
		}
	}
	gone := plan([]state{{Public: key}}, want, nil, now)
	if len(gone) != 1 || !gone[0].Remove {
		t.Errorf("a peer that is not wanted: %+v", gone)
	}
	// Both kinds of device are told the same.
	c := []change{{Public: key, Endpoint: at, Prefixes: []netip.Prefix{netip.MustParsePrefix("fd00:1::/96")}}, {Public: key, Remove: true}}
	peers := kernelPeers(c)
	if peers[0].Endpoint.String() != at.String() || peers[0].AllowedIPs[0].String() != "fd00:1::/96" || !peers[1].Remove {
		t.Errorf("%+v", peers)
	}
	if text := settings(key, 1, c); !strings.Contains(text, "endpoint=10.0.0.1:51820\n") || !strings.Contains(text, "allowed_ip=fd00:1::/96\n") || !strings.Contains(text, "remove=true\n") {
		t.Error(text)
	}
}

func TestParsePeers(t *testing.T) {
	key := strings.Repeat("ab", 32)
	got, err := parsePeers("private_key=" + key + "\nlisten_port=51820\npublic_key=" + key + "\nendpoint=[fd00::1]:4\n" +
		"last_handshake_time_sec=12\nlast_handshake_time_nsec=5\ntx_bytes=7\nrx_bytes=9\nallowed_ip=fd00::/96\npublic_key=" + key + "\nlast_handshake_time_sec=0\n")
	if err != nil || len(got) != 2 || got[0].Sent != 7 || got[0].Received != 9 || got[0].Endpoint.String() != "[fd00::1]:4" ||
		!got[0].Handshake.Equal(time.Unix(12, 0)) || !got[1].Handshake.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parsePeers("public_key=zz\n"); err == nil {
		t.Error("nonsense was read")
	}
}
