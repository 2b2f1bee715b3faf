package services_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/services"
	"starling.dev/starling/netstack/service"
)

const patience = 2 * time.Second

// world is a machine in a namespace of its own, with pods.
type world struct {
	t       testing.TB
	dir     string
	machine string // path of its namespace
	own     netip.Prefix
	prefix  netip.Prefix // of services
	network *linux.Network
	table   *services.Table
	pods    []pod
}

type pod struct {
	name    string
	space   string
	address netip.Addr
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t testing.TB, pods int) *world {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	w := &world{t: t, dir: t.TempDir()}
	w.machine = filepath.Join(w.dir, "machine")
	fd, _, err := linux.MakeNamespace(w.machine)
	check(t, err)
	unix.Close(fd)
	t.Cleanup(func() {
		entries, _ := filepath.Glob(filepath.Join(w.dir, "*"))
		for _, e := range entries {
			check(t, linux.RemoveNamespace(e))
		}
	})
	id := sha256.Sum256([]byte(t.Name()))
	cluster := netstack.ClusterPrefix(id[:])
	w.own, w.prefix = netstack.MachinePrefix(cluster, id[8:]), netstack.ServicePrefix(cluster)
	w.network, err = linux.New(linux.Config{
		Cluster: cluster, Own: w.own, Scope: "m", Namespaces: w.dir, Machine: w.machine, Log: slog.New(slog.DiscardHandler),
	})
	check(t, err)
	t.Cleanup(func() { w.network.Close() })
	check(t, w.network.Routes(t.Context(), loops.RoutePlan{Cluster: cluster, Own: w.own}))
	for i := range pods {
		w.addPod(i)
	}
	w.open()
	return w
}

// open makes a Table, as a peer that starts does.
func (w *world) open() {
	var err error
	w.table, err = services.New(services.Config{
		Machine: w.machine, Prefix: w.prefix, Source: netstack.MachineAddress(w.own),
	})
	check(w.t, err)
	w.t.Cleanup(func() { w.table.Close() })
}

func (w *world) addPod(i int) {
	address := netstack.RandomAddress(w.own, func() uint64 { return uint64(i + 1) })
	name := fmt.Sprintf("pod%d", i)
	path, err := w.network.Attach(w.t.Context(), loops.PodNetwork{ID: name, Name: name, Address: address, IPv4: "none"})
	check(w.t, err)
	w.pods = append(w.pods, pod{name, path, address})
}

func (w *world) locals() (list []netip.Addr) {
	for _, p := range w.pods {
		list = append(list, p.address)
	}
	return list
}

// service is one with the given pods behind it, at port 80.
func (w *world) service(n uint64, pods ...int) service.Service {
	s := service.Service{Spec: service.Spec{
		Key:     service.Key{Namespace: "default", Name: fmt.Sprintf("s%d", n)},
		Ports:   []service.Port{{Name: "http", Protocol: "tcp", Port: 80}},
		Address: netstack.RandomAddress(w.prefix, func() uint64 { return n }),
	}}
	for _, i := range pods {
		s.Endpoints = append(s.Endpoints, service.Endpoint{Pod: w.pods[i].name, Address: w.pods[i].address, Ports: []uint16{8080}})
	}
	return s
}

func (w *world) sync(list ...service.Service) {
	w.t.Helper()
	var forwards []service.Forward
	for _, s := range list {
		forwards = append(forwards, s.Forwards()...)
	}
	check(w.t, w.table.Sync(w.t.Context(), forwards, w.locals()))
}

func in(t testing.TB, path string, f func() error) error {
	t.Helper()
	fd, err := linux.OpenNamespace(path)
	check(t, err)
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// serve answers each connection to a pod's port 8080 with the pod's name and the client's
// address.
func (w *world) serve(i int) {
	p := w.pods[i]
	var l net.Listener
	check(w.t, in(w.t, p.space, func() (err error) {
		l, err = net.Listen("tcp6", "[::]:8080")
		return err
	}))
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s %s", p.name, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
			conn.Close()
		}
	}()
}

// serveUDP answers each packet to a pod's port 8080 with the pod's name.
func (w *world) serveUDP(i int) {
	p := w.pods[i]
	var c net.PacketConn
	check(w.t, in(w.t, p.space, func() (err error) {
		c, err = net.ListenPacket("udp6", "[::]:8080")
		return err
	}))
	w.t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(p.name), from)
		}
	}()
}

// ask connects from a namespace and returns the name of who answered, and the client as
// it was seen.
func (w *world) ask(path string, to netip.AddrPort) (name string, seen netip.Addr, err error) {
	var text []byte
	err = in(w.t, path, func() error {
		conn, err := net.DialTimeout("tcp", to.String(), patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		check(w.t, conn.SetDeadline(time.Now().Add(patience)))
		text, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		return "", netip.Addr{}, err
	}
	var from string
	if _, err := fmt.Sscan(string(text), &name, &from); err != nil {
		return "", netip.Addr{}, fmt.Errorf("answer %q: %w", text, err)
	}
	seen, err = netip.ParseAddr(from)
	return name, seen, err
}

// sh runs a script in the machine's namespace.
func (w *world) sh(script string) {
	w.t.Helper()
	err := in(w.t, w.machine, func() error {
		out, err := exec.Command("sh", "-ec", script).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	})
	check(w.t, err)
}

// ruleset prints the table as nft(8) shows it, without handles.
func (w *world) ruleset() string {
	var out []byte
	check(w.t, in(w.t, w.machine, func() (err error) {
		out, err = exec.Command("nft", "-s", "list", "table", "ip6", services.TableName).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}))
	return string(out)
}

func dial(to netip.AddrPort) (net.Conn, error) { return net.DialTimeout("tcp", to.String(), patience) }
