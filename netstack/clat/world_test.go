package clat_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/linux"
)

// The world of these tests, all of it real namespaces and links:
//
//	pod1 --IPv6--+
//	             machine --203.0.113.0/24-- router --198.51.100.0/24-- server
//	pod2 --IPv6--+                                (narrow, if asked for)
//
// Pods have no IPv4 but what the Device gives them; the router and the server have no
// IPv6.
const (
	serverIP  = "198.51.100.2"
	serverIP6 = "64:ff9b:1::198.51.100.2"
	machineIP = "203.0.113.1"
	patience  = 10 * time.Second
)

type world struct {
	t                       testing.TB
	dir                     string
	cfg                     clat.Config
	machine, router, server *space
	pods                    []*space
	device                  *clat.Device
	tayga                   *os.Process // nil unless a benchmark runs it
	stop                    func()
}

// space is a network namespace.
type space struct {
	t    testing.TB
	path string
	fd   int
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld builds the world. narrow is the MTU of the server's link.
func newWorld(t testing.TB, pods, narrow int) *world {
	return newWorldWith(t, pods, narrow, clat.Config{})
}

// newWorldWith builds it with a Device of the caller's choice.
func newWorldWith(t testing.TB, pods, narrow int, cfg clat.Config) *world {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	w := &world{t: t, dir: t.TempDir(), cfg: cfg}
	w.machine, w.router, w.server = w.space("machine"), w.space("router"), w.space("server")
	w.join(w.machine, "uplink", w.router, "downlink", 1500)
	w.join(w.router, "far", w.server, "eth0", narrow)
	w.machine.ip("addr add 203.0.113.1/24 dev uplink", "route add default via 203.0.113.2")
	w.router.ip("addr add 203.0.113.2/24 dev downlink", "addr add 198.51.100.1/24 dev far")
	w.server.ip("addr add 198.51.100.2/24 dev eth0", "route add default via 198.51.100.1")
	w.router.sysctl("net/ipv4/ip_forward", "1")
	w.machine.sysctl("net/ipv6/conf/all/forwarding", "1")
	for i := range pods {
		w.addPod(i + 1)
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) space(name string) *space {
	path := filepath.Join(w.dir, name)
	fd, _, err := linux.MakeNamespace(path)
	check(w.t, err)
	s := &space{t: w.t, path: path, fd: fd}
	w.t.Cleanup(func() {
		unix.Close(fd)
		check(w.t, linux.RemoveNamespace(path))
	})
	s.sysctl("net/ipv6/conf/all/disable_ipv6", "0")
	s.sysctl("net/ipv6/conf/default/accept_dad", "0")
	s.ip("link set lo up")
	return s
}

// within runs f in the namespace.
func (s *space) within(f func() error) {
	s.t.Helper()
	check(s.t, linux.Within(s.fd, f))
}

func (s *space) ip(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.within(func() error {
			out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("ip %s: %w: %s", line, err, out)
			}
			return nil
		})
	}
}

func (s *space) sysctl(key, value string) {
	s.t.Helper()
	s.within(func() error { return os.WriteFile("/proc/sys/"+key, []byte(value), 0o644) })
}

// join makes a pair of links.
func (w *world) join(a *space, nameA string, b *space, nameB string, mtu int) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = nameA, mtu
	a.within(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: nameB, PeerNamespace: netlink.NsFd(b.fd)})
	})
	b.ip(fmt.Sprintf("link set %s mtu %d up", nameB, mtu))
	a.ip("link set " + nameA + " up")
}

func podAddress(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:1::%d", n)) }

func (w *world) addPod(n int) {
	s := w.space(fmt.Sprintf("pod%d", n))
	link := fmt.Sprintf("slp%d", n)
	w.join(w.machine, link, s, "eth0", 1500)
	a := podAddress(n)
	w.machine.ip(fmt.Sprintf("addr add fe80::1/64 dev %s nodad", link), fmt.Sprintf("route add %v/128 dev %s", a, link))
	s.ip(fmt.Sprintf("addr add %v/128 dev eth0 nodad", a), "route add default via fe80::1 dev eth0")
	w.pods = append(w.pods, s)
}

func (w *world) spec(n int) clat.Pod {
	return clat.Pod{ID: fmt.Sprintf("pod%d", n), Space: w.pods[n-1].path, Address: podAddress(n)}
}

// start runs a Device, as a peer that starts does, and gives it all pods.
func (w *world) start() {
	var err error
	cfg := w.cfg
	cfg.Machine = w.machine.path
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w.device, err = clat.New(cfg)
	check(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // Run's one result
	go func() { done <- w.device.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		check(w.t, <-done)
	}
	select {
	case <-w.device.Ready():
	case err := <-done:
		w.t.Fatalf("the device ended: %v", err)
	}
	for i := range w.pods {
		check(w.t, w.device.Add(w.spec(i+1)))
	}
}

// dial connects from the namespace; from may name a local address.
func (s *space) dial(network, to string, control func(fd int) error) net.Conn {
	s.t.Helper()
	var conn net.Conn
	s.within(func() (err error) {
		d := net.Dialer{Timeout: patience, Control: rawControl(control)}
		conn, err = d.Dial(network, to)
		return err
	})
	s.t.Cleanup(func() { conn.Close() })
	check(s.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// serveTCP answers each connection with what handle makes of it, until the test ends.
func (s *space) serveTCP(handle func(net.Conn)) (port int) {
	var l net.Listener
	s.within(func() (err error) {
		l, err = net.Listen("tcp4", ":0")
		return err
	})
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// serveUDP sends back what comes, and where it came from.
func (s *space) serveUDP(control func(fd int) error) (port int) {
	var conn net.PacketConn
	s.within(func() (err error) {
		lc := net.ListenConfig{Control: rawControl(control)}
		conn, err = lc.ListenPacket(context.Background(), "udp4", serverIP+":0")
		return err
	})
	s.t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 65536)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(from.String())
			_, _ = conn.WriteTo(append([]byte(host+" "), b[:n]...), from)
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// families are the two ways to the server, as network suffix and address.
var families = map[string]string{"4": serverIP, "6": serverIP6}
