package linux_test

import (
	"os"
	"strings"
	"testing"

	"starling.dev/starling/netstack/linux"
)

// trouble is what breaks pods' traffic, and what the doctor says about it: the check,
// words of the problem, words of the remedy.
var trouble = map[string]struct {
	script string
	want   []string
}{
	"Docker's policy": {
		`nft 'table ip filter { chain DOCKER-USER { return; }; chain DOCKER-CT { ct state established,related accept; };
			chain FORWARD { type filter hook forward priority 0; policy drop; jump DOCKER-USER; jump DOCKER-CT; iifname "docker0" accept; }; }'`,
		[]string{"firewall: policy drop of chain FORWARD in table ip filter", "iptables -I DOCKER-USER -i slp+ -j ACCEPT && iptables -I DOCKER-USER -o slp+ -j ACCEPT"},
	},
	"a policy for IPv6": {
		`nft 'table ip6 filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }'`,
		[]string{"policy drop of chain FORWARD in table ip6 filter", "ip6tables -I FORWARD -i slp+"},
	},
	"firewalld's last rule": {
		`nft 'table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; ct state established accept; jump zones; reject with icmpx admin-prohibited; };
			chain zones { iifname "lo" accept; oifname "eth0" ip daddr 192.0.2.0/24 accept; }; }'`,
		[]string{"rule 3 (handle ", "of chain filter_FORWARD in table inet firewalld", "firewall-cmd --permanent --zone=trusted --add-interface=slp+"},
	},
	"a rule in a chain that is jumped to": {
		`nft 'table inet site { chain fw { type filter hook forward priority 0; goto lan; }; chain lan { iifname != "eth0" drop; }; }'`,
		[]string{"rule 1 (handle ", "of chain lan in table inet site", `nft insert rule inet site fw iifname '"slp*"' accept`},
	},
	"IPv6 forwarding off": {
		"sysctl -qw net.ipv6.conf.all.forwarding=0",
		[]string{"forwarding: the machine does not forward IPv6", "sysctl -w net.ipv6.conf.all.forwarding=1"},
	},
	"IPv4 forwarding off": {
		"sysctl -qw net.ipv4.ip_forward=0",
		[]string{"forwarding: the machine does not forward IPv4", "sysctl -w net.ipv4.ip_forward=1"},
	},
	"IPv6 disabled": {
		"sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1",
		[]string{"ipv6: IPv6 is disabled on uplink eth0", "sysctl -w net.ipv6.conf.eth0.disable_ipv6=0"},
	},
	"strict reverse path": {
		`ip link add second type veth peer name x; ip link set second up; ip address add 10.2.0.1/24 dev second
			ip route add default via 10.2.0.9; ip route add default via 10.64.0.9 metric 9; sysctl -qw net.ipv4.conf.second.rp_filter=1`,
		[]string{"rp_filter: uplink second", "sysctl -w net.ipv4.conf.second.rp_filter=2"},
	},
	"the pods' range in use": {
		"ip address add 10.63.0.1/24 dev eth0",
		[]string{"range: link eth0 has address 10.63.0.1/24", "choose another range"},
	},
	"no uplink": {
		"ip link set eth0 down",
		[]string{"uplink: no link of this machine is up"},
	},
}

// The setting is written once, and a networkd that runs has to take it.
func TestSetUpNetworkd(t *testing.T) {
	root := t.TempDir()
	check(t, os.MkdirAll(root+"/run/systemd/netif", 0o755))
	for _, want := range []bool{false, false} {
		if restart, err := linux.SetUpNetworkd(root); err != nil || restart != want {
			t.Errorf("without networkd: restart %v, %v", restart, err)
		}
	}
	check(t, os.WriteFile(root+"/run/systemd/netif/state", nil, 0o644))
	file := root + "/etc/systemd/networkd.conf.d/starling.conf"
	check(t, os.WriteFile(file, []byte("# old"), 0o644))
	for _, want := range []bool{true, false} {
		if restart, err := linux.SetUpNetworkd(root); err != nil || restart != want {
			t.Errorf("with networkd: restart %v, %v, want %v", restart, err, want)
		}
	}
	if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), "[Network]\nManageForeignRoutes=no\n") {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}

func TestDoctorNamesTheTroubleAndTheRemedy(t *testing.T) {
	for name, c := range trouble {
		t.Run(name, func(t *testing.T) {
			m := newCluster(t, 1).machines[0]
			check(t, m.Routes(t.Context(), m.plan()))
			if found := doctor(t, m); found != "" {
				t.Fatalf("healthy, but:\n%s", found)
			}
			m.sh(t, c.script)
			found := doctor(t, m)
			for _, want := range c.want {
				if !strings.Contains(found, want) {
					t.Errorf("%q is not in:\n%s", want, found)
				}
			}
		})
	}
}

// Firewalls that let pods through are no trouble.
func TestDoctorAcceptsFirewallsThatLetPodsThrough(t *testing.T) {
	m := newCluster(t, 1).machines[0]
	check(t, m.Routes(t.Context(), m.plan()))
	for name, script := range map[string]string{
		"Docker with the remedy": `table ip filter { chain DOCKER-USER { iifname "slp*" counter accept; oifname "slp*" counter accept; };
			chain FORWARD { type filter hook forward priority 0; policy drop; jump DOCKER-USER; }; }`,
		"drops others only": `table inet site { chain fw { type filter hook forward priority 0; iifname "eth7" drop; ip saddr 192.0.2.0/24 drop; meta nfproto ipv4 iifname "docker*" drop; }; }`,
		"input only":        `table inet site { chain in { type filter hook input priority 0; policy drop; }; }`,
		"a bridge's":        `table bridge site { chain fw { type filter hook forward priority 0; policy drop; }; }`,
	} {
		t.Run(name, func(t *testing.T) {
			m.sh(t, "nft '"+script+"'")
			if found := doctor(t, m); found != "" {
				t.Error(found)
			}
			for _, table := range []string{"ip filter", "inet site", "bridge site"} {
				m.sh(t, "nft delete table "+table+" 2>/dev/null || true")
			}
		})
	}
}

// The remedy that is given works: traffic that was dropped flows.
func TestRemedyWorks(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m, far := c.machines[0], c.machines[1].attach(1)
	p := m.attach(1)
	server := serve(t, far.path, far.Address)
	m.sh(t, `nft 'table inet site { chain fw { type filter hook forward priority 0; policy drop; }; }'`)
	if _, err := ask(t, p.path, server); err == nil {
		t.Fatal("the firewall lets pods through")
	}
	found, err := m.Doctor(t.Context())
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	m.sh(t, strings.TrimPrefix(found[0].Remedy, "run: "))
	reaches(t, p.path, server, p.Address)
	if found := doctor(t, m); found != "" {
		t.Fatal(found)
	}
}

func doctor(t *testing.T, m *machine) string {
	found, err := m.Doctor(t.Context())
	check(t, err)
	var b strings.Builder
	for _, f := range found {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}
