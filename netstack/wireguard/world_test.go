package wireguard

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
)

const patience = 15 * time.Second

// machine is a machine in a network namespace of its own, with a device.
type machine struct {
	t       testing.TB
	name    string
	path    string
	address netip.Addr // on the LAN
	inside  netip.Addr // of its pods
	private Key
	device  *Device
	stop    func()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func space(t testing.TB, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	path := filepath.Join(t.TempDir(), name)
	fd, _, err := linux.MakeNamespace(path)
	check(t, err)
	unix.Close(fd)
	t.Cleanup(func() { check(t, linux.RemoveNamespace(path)) })
	run(t, path, "ip link set lo up")
	return path
}

// run runs a shell's commands in a namespace.
func run(t testing.TB, path, script string) {
	t.Helper()
	if out, err := try(path, script); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

func try(path, script string) (out []byte, err error) {
	fd, err := linux.OpenNamespace(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	err = linux.Within(fd, func() (err error) {
		out, err = exec.Command("sh", "-ec", script).CombinedOutput()
		return err
	})
	return out, err
}

// connect joins two namespaces by a pair of links with these IPv4 addresses.
func connect(t testing.TB, a, linkA, addressA, b, linkB, addressB string) {
	t.Helper()
	fd, err := linux.OpenNamespace(b)
	check(t, err)
	defer unix.Close(fd)
	run(t, a, fmt.Sprintf("ip link add %s type veth peer name %s netns /proc/%d/fd/%d; ip link set %s up; ip addr add %s dev %s", linkA, linkB, os.Getpid(), fd, linkA, addressA, linkA))
	run(t, b, fmt.Sprintf("ip link set %s up; ip addr add %s dev %s", linkB, addressB, linkB))
}

// newMachine makes a machine number n with a device, in a namespace that is there.
func newMachine(t testing.TB, n int, path, address string) *machine {
	private, err := NewKey(rand.Reader)
	check(t, err)
	m := &machine{
		t: t, name: fmt.Sprintf("m%d", n), path: path, address: netip.MustParseAddr(address),
		inside: netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", n)), private: private,
	}
	run(t, path, fmt.Sprintf("ip addr add %s/128 dev lo nodad", m.inside))
	m.start()
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *machine) start() {
	m.t.Helper()
	var err error
	m.device, err = New(Config{
		Machine: m.path, Private: m.private, Underlay: func() (int, error) { return 1500, nil }, Log: slog.New(slog.DiscardHandler),
	})
	check(m.t, err)
	_, err = m.device.Ensure(true)
	check(m.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // Run's one result
	go func() { done <- m.device.Run(ctx) }()
	m.stop = func() {
		cancel()
		check(m.t, <-done)
		m.stop = func() {}
	}
}

// meet makes others this machine's peers, and routes to what is behind them.
func (m *machine) meet(others ...*machine) {
	m.t.Helper()
	var peers []Peer
	for _, o := range others {
		peers = append(peers, Peer{
			Machine: o.name, Public: o.private.PublicKey(), Endpoint: netip.AddrPortFrom(o.address, DefaultPort),
			Prefixes: []netip.Prefix{netip.PrefixFrom(o.inside, 96).Masked()},
		})
		run(m.t, m.path, fmt.Sprintf("ip -6 route replace %s dev slwg src %s", peers[len(peers)-1].Prefixes[0], m.inside))
	}
	check(m.t, m.device.SetPeers(peers))
}

// reaches reports whether a ping gets to the other machine's inside.
func (m *machine) reaches(o *machine) bool {
	_, err := try(m.path, fmt.Sprintf("ping -6 -c1 -W1 -s 1300 %s", o.inside))
	return err == nil
}

// until waits for what must come true.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", patience, what)
		}
	}
}

// hears reports whether the machine has lately received anything from another.
func (m *machine) hears(o *machine) bool {
	m.t.Helper()
	list, err := m.device.Tunnels()
	check(m.t, err)
	for _, tunnel := range list {
		if tunnel.Machine == o.name {
			return tunnel.Heard(time.Now())
		}
	}
	return false
}
