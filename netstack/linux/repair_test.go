package linux_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// damage is what somebody may do to a machine by hand.
var damage = map[string]string{
	"ruleset flushed":       "nft flush ruleset",
	"rules flushed":         "nft flush table inet starling",
	"one rule deleted":      "nft flush chain inet starling postrouting",
	"routes flushed":        "ip -6 route flush proto 83; ip -4 route flush proto 83",
	"forwarding off":        "sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv4.ip_forward=0",
	"machine address gone":  "ip -6 address flush dev lo scope global",
	"link-local gone":       "ip -6 address flush dev eth0 to fe80::153:0:0:0/80",
	"neighbours flushed":    "ip -6 neighbour flush nud permanent; ip -4 neighbour flush nud permanent",
	"pod links deleted":     "for l in $(ip -o link | grep -o 'slp[0-9a-f]*'); do ip link delete $l; done",
	"pod links down":        "for l in $(ip -o link | grep -o 'slp[0-9a-f]*'); do ip link set $l down; done",
	"pod links' MTU":        "for l in $(ip -o link | grep -o 'slp[0-9a-f]*'); do ip link set $l mtu 1400; done",
	"pod links' addresses":  "for l in $(ip -o link | grep -o 'slp[0-9a-f]*'); do ip address flush dev $l; done",
	"a stray route of ours": "ip -6 route add 2001:db8::/32 dev eth0 proto 83",
}

func TestApplyRepairs(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m, far := c.machines[0], c.machines[1].attach(1)
	p := m.attach(1)
	inside := serve(t, far.path, far.Address)
	outside := serve(t, c.machines[1].node.Namespace, c.machines[1].node.IPv4.Addr())
	whole := observe(t, m, p)
	for name, script := range damage {
		t.Run(name, func(t *testing.T) {
			m.sh(t, script)
			if observe(t, m, p) == whole {
				t.Fatal("no damage was done")
			}
			check(t, m.Routes(t.Context(), m.plan()))
			m.attachAs(p.PodNetwork)
			if now := observe(t, m, p); now != whole {
				t.Errorf("repaired:\n%s\nbefore:\n%s", now, whole)
			}
			reaches(t, p.path, inside, p.Address)
			reaches(t, p.path, outside, m.node.IPv4.Addr())
		})
	}
}

func TestApplyRepairsInsideThePod(t *testing.T) {
	c := newCluster(t, 1)
	m := c.machines[0]
	p := m.attach(1)
	whole := observe(t, m, p)
	for name, script := range map[string]string{
		"routes":      "ip -6 route flush proto 83; ip -4 route flush proto 83",
		"addresses":   "ip address flush dev eth0 scope global",
		"a stray one": "ip address add 2001:db8::1/64 dev eth0 nodad",
		"link down":   "ip link set eth0 down",
		"lo down":     "ip link set lo down",
		"MAC":         "ip link set eth0 address 02:00:00:00:00:01",
	} {
		t.Run(name, func(t *testing.T) {
			shell(t, p.path, script)
			if observe(t, m, p) == whole {
				t.Fatal("no damage was done")
			}
			m.attachAs(p.PodNetwork)
			if now := observe(t, m, p); now != whole {
				t.Errorf("repaired:\n%s\nbefore:\n%s", now, whole)
			}
		})
	}
}

// observe prints what people and the kernel see, but for indexes and lifetimes.
func observe(t *testing.T, m *machine, p pod) string {
	const look = `ip -o link | awk '{ sub(/@.*/, "", $2); match($0, /link.ether [^ ]*/); print $2, $5, ($3 ~ /[<,]UP[,>]/), substr($0, RSTART, RLENGTH) }'
		ip -br address | grep -o '^[a-z]*\|2001:[^ ]*\|fd[^ ]*\|fe80::1/64\|fe80::153[^ ]*\|10[.][^ ]*'
		ip -6 route show proto 83; ip -6 route show type unreachable; ip -4 route show proto 83; ip neighbour show nud permanent`
	return m.sh(t, look+`; nft list ruleset; sysctl net.ipv6.conf.all.forwarding net.ipv4.ip_forward`) + shell(t, p.path, look)
}

// Run repairs by itself what somebody flushed.
func TestRunRepairs(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m, far := c.machines[0], c.machines[1].attach(1)
	p := m.attach(1)
	inside := serve(t, far.path, far.Address)
	whole := observe(t, m, p)

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	waitFor(t, "Run to watch", func() bool {
		// Until Run listens, a change goes unseen; so one is made again and again.
		m.sh(t, "nft flush table inet starling")
		return strings.Contains(m.log.String(), "repaired the network")
	})
	for _, name := range []string{"ruleset flushed", "routes flushed", "pod links deleted", "machine address gone"} {
		m.sh(t, damage[name])
		waitFor(t, "the repair of: "+name, func() bool { return observe(t, m, p) == whole })
	}
	reaches(t, p.path, inside, p.Address)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Run: %v", err)
	}
}

// waitFor asks until the answer is yes; each question takes a few milliseconds itself.
func waitFor(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		if yes() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

func TestDetachedPodIsNotRepaired(t *testing.T) {
	c := newCluster(t, 1)
	m := c.machines[0]
	p := m.attach(1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	waitFor(t, "Run to watch", func() bool {
		m.sh(t, "nft flush table inet starling")
		return strings.Contains(m.log.String(), "repaired the network")
	})
	check(t, m.Detach(t.Context(), p.ID))
	m.sh(t, damage["machine address gone"])
	waitFor(t, "a repair", func() bool {
		return strings.Contains(m.sh(t, "ip -6 address show dev lo"), c.prefix.Addr().String()[:10])
	})
	cancel()
	<-done
	if _, err := os.Stat(p.path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s: %v", p.path, err)
	}
}

// What is not ours stays as it is, whatever we do.
func TestForeignThingsAreNotTouched(t *testing.T) {
	c := newCluster(t, 2)
	m := c.machines[0]
	m.sh(t, `ip link add slpretend type veth peer name other; ip link set slpretend up; ip link set other up
		ip address add fd77::1/64 dev eth0 nodad; ip address add 10.63.0.1/24 dev other
		ip -6 route add fd78::/64 dev eth0; ip -6 route add fd79::/64 via fd77::2 proto static; ip -4 route add 10.99.0.0/24 dev eth0 proto 84
		ip -6 rule add from fd77::/64 table 99; ip -6 route add default dev eth0 table 99 proto 83
		nft add table inet starlings; nft add chain inet starlings forward '{ type filter hook forward priority 0; }'
		nft add table ip starling; nft add chain ip starling x`)
	look := func() string {
		return m.sh(t, `ip -br link | grep -v '^slp[0-9a-f]\{12\}'; ip -br -4 address; ip -6 address show dev eth0 to fd77::/64
			ip -6 route show table all | grep -v 'proto 83\|slp[0-9a-f]\{12\}\|fd[0-9a-f]*:[0-9a-f]*:[0-9a-f]*:[0-9a-f]*:\|fe80\|multicast\|anycast'; ip -6 route show table 99; ip -4 route | grep -v 'proto 83'
			ip -6 rule; nft list table inet starlings; nft list table ip starling`)
	}
	before := look()
	for range 2 {
		c.routeAll()
		p := m.attach(1)
		check(t, m.Routes(t.Context(), m.plan()))
		if now := look(); now != before {
			t.Fatalf("before:\n%s\nwhile pods run:\n%s", before, now)
		}
		check(t, m.Detach(t.Context(), p.ID))
		check(t, m.Purge(t.Context()))
		if now := look(); now != before {
			t.Fatalf("before:\n%s\nafter:\n%s", before, now)
		}
	}
	for _, ours := range []string{"ip -6 route show proto 83", "ip -6 address show dev lo scope global", "nft list tables | grep 'inet starling$' || true"} {
		if out := m.sh(t, ours); strings.TrimSpace(out) != "" {
			t.Errorf("%s, after the purge: %s", ours, out)
		}
	}
}

func TestSweepRemovesWhatIsNotKept(t *testing.T) {
	c := newCluster(t, 2)
	m, neighbour := c.machines[0], c.machines[1]
	keep, drop, half := m.attach(1), m.attach(2), m.attach(3)
	theirs := neighbour.attach(1)
	m.sh(t, "ip link delete "+netstack.HostLink(m.name, half.ID)) // only its namespace is left
	m.sh(t, "ip link add slp0123456789ab type veth peer name x")  // never got its alias
	linkOnly := m.attach(4)
	check(t, linux.RemoveNamespace(linkOnly.path))

	m.restart()
	removed, err := m.Sweep(t.Context(), func(id string) bool { return id == keep.ID })
	check(t, err)
	want := []string{drop.ID, half.ID}
	if !slices.Contains(removed, drop.ID) || !slices.Contains(removed, half.ID) || slices.Contains(removed, keep.ID) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	links := m.sh(t, "ip -br link")
	if n := strings.Count(links, "slp"); n != 1 || !strings.Contains(links, netstack.HostLink(m.name, keep.ID)) {
		t.Errorf("links that are left:\n%s", links)
	}
	for path, there := range map[string]bool{keep.path: true, drop.path: false, half.path: false, theirs.path: true} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	reaches(t, m.node.Namespace, serve(t, keep.path, keep.Address), netstack.MachineAddress(m.own))

	check(t, linux.RemovePodNamespaces(c.dir, m.name))
	if _, err := os.Stat(keep.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("RemovePodNamespaces left %s: %v", keep.path, err)
	}
}

// A plain file is what a reboot leaves of a bound namespace on a disk.
func TestAttachAfterAReboot(t *testing.T) {
	c := newCluster(t, 1)
	m := c.machines[0]
	p := m.attach(1)
	check(t, m.Detach(t.Context(), p.ID))
	check(t, os.WriteFile(p.path, nil, 0o444))
	p = m.attachAs(p.PodNetwork)
	reaches(t, m.node.Namespace, serve(t, p.path, p.Address), netstack.MachineAddress(m.own))
}

// The default route that a router advertised outlives the start of forwarding, and the
// router is still listened to.
func TestForwardingKeepsRouterAdvertisements(t *testing.T) {
	c := newCluster(t, 2)
	m, router := c.machines[0], c.machines[1].node
	m.sh(t, "sysctl -qw net.ipv6.conf.eth0.accept_ra=1")
	learnt := func() bool { return strings.Contains(m.sh(t, "ip -6 route show default"), "proto ra") }
	waitFor(t, "the first advertisement", func() bool { advertise(t, router.Namespace); return learnt() })
	check(t, m.Routes(t.Context(), m.plan()))
	if !learnt() {
		t.Fatal("the default route was lost")
	}
	m.sh(t, "ip -6 route flush default")
	waitFor(t, "an advertisement while forwarding", func() bool { advertise(t, router.Namespace); return learnt() })
}

// advertise multicasts one router advertisement.
func advertise(t *testing.T, path string) {
	check(t, in(t, path, func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		link.Name = strconv.Itoa(link.Index) // names mean another link in another namespace
		conn, _, err := ndp.Listen(link, ndp.LinkLocal)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.WriteTo(&ndp.RouterAdvertisement{RouterLifetime: time.Hour}, nil, netip.IPv6LinkLocalAllNodes())
	}))
}

func TestStateTellsWhatIsMissing(t *testing.T) {
	c := newCluster(t, 2)
	c.routeAll()
	m := c.machines[0]
	p := m.attach(1)
	state, err := m.State(t.Context())
	check(t, err)
	for _, want := range []string{
		"uplinks eth0\n", "table inet starling\n", "sysctl net.ipv6.conf.all.forwarding=1\n",
		"route " + c.machines[1].own.String() + " via ", "pod " + p.ID + " (m1-1)\n", "  route " + netip.PrefixFrom(p.Address, 128).String() + " dev slp",
	} {
		if !strings.Contains(state, want) {
			t.Errorf("%q is not in\n%s", want, state)
		}
	}
	if strings.Contains(state, "missing") || strings.Contains(state, "left over") {
		t.Errorf("whole, but:\n%s", state)
	}
	m.sh(t, damage["ruleset flushed"]+";"+damage["routes flushed"]+";"+damage["a stray route of ours"])
	state, err = m.State(t.Context())
	check(t, err)
	for _, want := range []string{"missing: table inet starling\n", "missing: route " + c.machines[1].own.String(), "left over: route 2001:db8::/32"} {
		if !strings.Contains(state, want) {
			t.Errorf("%q is not in\n%s", want, state)
		}
	}
}
