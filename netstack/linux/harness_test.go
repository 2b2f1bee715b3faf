package linux_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/lan"
)

// cluster is a LAN of machines, each with its Network.
type cluster struct {
	t        testing.TB
	dir      string
	prefix   netip.Prefix
	lan      *lan.LAN
	machines []*machine
}

type machine struct {
	*linux.Network
	c    *cluster
	node lan.Node
	name string
	own  netip.Prefix
	cfg  linux.Config
	log  *lockedBuffer
}

func needRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
}

// newCluster makes n machines on one LAN; no routes are set yet.
func newCluster(t testing.TB, n int) *cluster {
	needRoot(t)
	c := &cluster{t: t, dir: t.TempDir()}
	id := sha256.Sum256([]byte(t.Name()))
	c.prefix = netstack.ClusterPrefix(id[:])
	var err error
	c.lan, err = lan.New(lan.Config{Name: "t", Nodes: n, Namespaces: c.dir})
	check(t, err)
	t.Cleanup(func() {
		check(t, c.lan.Remove())
		entries, _ := filepath.Glob(filepath.Join(c.dir, "*"))
		for _, e := range entries {
			check(t, linux.RemoveNamespace(e))
		}
	})
	check(t, c.lan.Up(t.Context()))
	for _, node := range c.lan.Nodes() {
		c.machines = append(c.machines, c.open(node))
	}
	return c
}

// open makes a Network on a machine, as a peer that starts there does.
func (c *cluster) open(node lan.Node) *machine {
	m := &machine{c: c, node: node, name: fmt.Sprintf("m%d", node.N), log: &lockedBuffer{}}
	id := sha256.Sum256([]byte(m.name))
	m.own = netstack.MachinePrefix(c.prefix, id[:])
	m.cfg = linux.Config{
		Cluster: c.prefix, Own: m.own, Scope: m.name, Namespaces: c.dir,
		Machine: node.Namespace, Log: slog.New(slog.NewTextHandler(m.log, nil)),
	}
	m.restart()
	c.t.Cleanup(func() { m.Close() })
	return m
}

// restart forgets everything in memory, as kill -9 of the peer does.
func (m *machine) restart() {
	if m.Network != nil {
		check(m.c.t, m.Network.Close())
	}
	var err error
	m.Network, err = linux.New(m.cfg)
	check(m.c.t, err)
}

// plan routes every machine's prefix to it, but for m's own.
func (m *machine) plan(moved ...loops.Route) loops.RoutePlan {
	plan := loops.RoutePlan{Cluster: m.c.prefix, Own: m.own, Routes: moved}
	for _, other := range m.c.machines {
		if other != m {
			plan.Routes = append(plan.Routes, loops.Route{Prefix: other.own, Machine: other.name, Via: other.node.IPv6.Addr()})
		}
	}
	return plan
}

func (c *cluster) routeAll() {
	for _, m := range c.machines {
		check(c.t, m.Routes(c.t.Context(), m.plan()))
	}
}

// pod is an attached pod.
type pod struct {
	m *machine
	loops.PodNetwork
	path string
}

// attach makes the k-th pod of the machine.
func (m *machine) attach(k int) pod {
	id := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s-%d", m.name, k)))
	net := loops.PodNetwork{ID: id, Name: fmt.Sprintf("%s-%d", m.name, k), IPv4: "masquerade"}
	net.Address = netstack.RandomAddress(m.own, func() uint64 { return uint64(k) })
	return m.attachAs(net)
}

func (m *machine) attachAs(p loops.PodNetwork) pod {
	path, err := m.Attach(m.c.t.Context(), p)
	check(m.c.t, err)
	return pod{m, p, path}
}

// in runs f in a network namespace.
func in(t testing.TB, path string, f func() error) error {
	fd, err := linux.OpenNamespace(path)
	check(t, err)
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

const patience = 2 * time.Second

// serve answers each TCP connection to the address with the client's address.
func serve(t testing.TB, path string, addr netip.Addr) netip.AddrPort {
	var l net.Listener
	check(t, in(t, path, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	}))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
			conn.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// ask connects from a namespace and returns what the server sees as the client.
func ask(t testing.TB, path string, to netip.AddrPort) (netip.Addr, error) {
	var seen []byte
	err := in(t, path, func() error {
		conn, err := net.DialTimeout("tcp", to.String(), patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		seen, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(string(seen))
}

// reaches asserts that the client gets through and is seen as want.
func reaches(t testing.TB, path string, to netip.AddrPort, want netip.Addr) {
	t.Helper()
	seen, err := ask(t, path, to)
	if err != nil || seen != want {
		t.Fatalf("from %s to %s: seen as %v, %v; want %v", filepath.Base(path), to, seen, err, want)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefixOf(c *cluster, id []byte) netip.Prefix { return netstack.MachinePrefix(c.prefix, id) }
