package clat_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/fastpath"
)

// fast reads the fast path's counters.
func (w *world) fast() fastpath.Counts {
	w.t.Helper()
	c, _, err := w.device.Fast()
	check(w.t, err)
	return c
}

// TestFastPathIsTaken: TCP, UDP and ping of both families go through the kernel alone, by
// either hook, and what is not simple still gets through.
func TestFastPathIsTaken(t *testing.T) {
	for _, hook := range []string{"tcx", "clsact"} {
		t.Run(hook, func(t *testing.T) {
			w := newWorldWith(t, 1, 1500, clat.Config{Clsact: hook == "clsact"})
			if _, got, _ := w.device.Fast(); got != hook {
				t.Fatalf("the programs are hooked by %q", got)
			}
			tcp, udp := w.server.serveTCP(echoHashed), w.server.serveUDP(nil)
			for family := range families {
				for what, send := range map[string]func(){
					"TCP":  func() { upload(t, w.pods[0].dial("tcp"+family, endpoint(family, tcp), nil), 4<<20) },
					"UDP":  func() { ask(t, w.pods[0].dial("udp"+family, endpoint(family, udp), nil), []byte("x")) },
					"ping": func() { w.pods[0].ping(family, 56) },
				} {
					before := w.fast()
					send()
					after := w.fast()
					out, in := after.Out4-before.Out4, after.In4-before.In4
					if family == "6" {
						out, in = after.Out6-before.Out6, after.In6-before.In6
					}
					if out == 0 || in == 0 {
						t.Errorf("IPv%s, %s: %d packets out and %d in took the fast path", family, what, out, in)
					}
				}
				before := w.fast().Total()
				ask(t, w.pods[0].dial("udp"+family, endpoint(family, udp), nil), blob(20000))
				w.pods[0].ping(family, 60000)
				if after := w.fast().Total(); after != before {
					t.Errorf("IPv%s: %d fragments took the fast path", family, after-before)
				}
			}
		})
	}
}

// TestTUNAlone: a Device without fast path says so by its figures, and serves all the same.
func TestTUNAlone(t *testing.T) {
	w := newWorldWith(t, 1, 1500, clat.Config{TUNOnly: true})
	port := w.server.serveTCP(echoHashed)
	for family := range families {
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, port), nil), 1<<20)
	}
	if c, hook, err := w.device.Fast(); hook != "" || c.Total() != 0 || err != nil {
		t.Errorf("hook %q, %+v, %v", hook, c, err)
	}
}

// TestChecksumsAreRight: with the offloads of the links between switched off, each packet
// carries a whole checksum, which the receiver verifies; superpackets are cut on the way.
func TestChecksumsAreRight(t *testing.T) {
	w := newWorld(t, 1, 1500)
	for s, link := range map[*space]string{w.machine: "uplink", w.server: "eth0"} {
		for _, offload := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STXCSUM} {
			s.switchOff(link, offload)
		}
	}
	tcp, udp := w.server.serveTCP(echoHashed), w.server.serveUDP(nil)
	for family := range families {
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, tcp), nil), 4<<20)
		for size := range 40 {
			ask(t, w.pods[0].dial("udp"+family, endpoint(family, udp), nil), blob(1+size*31))
		}
		for _, size := range []int{0, 1, 56, 1400} {
			w.pods[0].ping(family, size)
		}
	}
	for name, s := range map[string]*space{"server": w.server, "pod": w.pods[0]} {
		for _, counter := range []string{"TcpInCsumErrors", "UdpInCsumErrors", "IcmpInCsumErrors", "Udp6InCsumErrors", "Icmp6InCsumErrors"} {
			if n := s.counter(counter); n != "0" {
				t.Errorf("%s: %s is %s", name, counter, n)
			}
		}
	}
	if c := w.fast(); c.In4 < 200 || c.In6 < 200 {
		t.Errorf("few packets took the fast path: %+v", c)
	}
}

// switchOff switches an offload of a link off.
func (s *space) switchOff(link string, offload uint32) {
	s.t.Helper()
	s.within(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		value := struct{ command, data uint32 }{offload, 0}
		var req struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}
		copy(req.name[:], link)
		req.data = unsafe.Pointer(&value)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
			return fmt.Errorf("switch an offload of %s off: %w", link, e)
		}
		return nil
	})
}

// counter reads one of the namespace's counters.
func (s *space) counter(name string) (value string) {
	s.within(func() error {
		out, err := exec.Command("nstat", "-asz", name).Output()
		if fields := strings.Fields(string(out)); len(fields) >= 3 {
			value = fields[2]
		}
		return err
	})
	return value
}

// TestFastPathOutlivesTheProcess: a connection goes on while no process is there, and the
// next one takes over.
func TestFastPathOutlivesTheProcess(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveTCP(func(c net.Conn) { _, _ = io.Copy(c, c) })
	var conns []net.Conn
	for family := range families {
		conns = append(conns, w.pods[0].dial("tcp"+family, endpoint(family, port), nil))
	}
	all := func(word string) {
		for _, c := range conns {
			if got := ask(t, c, []byte(word)); got != word {
				t.Errorf("the connection returned %q, want %q", got, word)
			}
		}
	}
	all("before")
	w.stop()
	all("while nobody is there")
	w.start()
	before := w.fast()
	all("after")
	if after := w.fast(); after.Total() == before.Total() {
		t.Error("the fast path was not taken after the restart")
	}
}

// TestFastPathIsRepaired: hooks that were taken away come back.
func TestFastPathIsRepaired(t *testing.T) {
	w := newWorldWith(t, 1, 1500, clat.Config{Clsact: true}) // which tc can take away
	port := w.server.serveUDP(nil)
	tc := func(s *space, link string) {
		s.within(func() error {
			out, err := exec.Command("tc", "qdisc", "del", "dev", link, "clsact").CombinedOutput()
			if err != nil {
				return fmt.Errorf("tc: %w: %s", err, out)
			}
			return nil
		})
	}
	tc(w.machine, "slp1")
	tc(w.machine, "slnat64")
	tc(w.pods[0], "clat")
	before := w.fast().Total()
	for family := range families {
		ask(t, w.pods[0].dial("udp"+family, endpoint(family, port), nil), []byte("by the TUN"))
	}
	if n := w.fast().Total(); n != before {
		t.Fatalf("%d packets took a path that was taken away", n-before)
	}
	check(t, w.device.Repair())
	for family := range families {
		ask(t, w.pods[0].dial("udp"+family, endpoint(family, port), nil), []byte("by the kernel"))
	}
	if n := w.fast().Total() - before; n != 4 {
		t.Errorf("%d packets took the repaired path, want 4", n)
	}
}

// TestUnlink: a pod that has no CLAT any more may send IPv4 as it likes.
func TestUnlink(t *testing.T) {
	w := newWorld(t, 1, 1500)
	w.stop() // what follows is of a process that does not know the pod
	w.pods[0].ip("addr add 10.9.0.1/32 dev eth0")
	w.machine.ip("route add 10.9.0.1/32 dev slp1", "addr add 10.9.0.9/32 dev uplink")
	reach := func() error {
		return w.pods[0].tryPing("10.9.0.9")
	}
	d, err := clat.New(clat.Config{Machine: w.machine.path, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	w.pods[0].ip("route add 10.9.0.9/32 via inet6 fe80::1 dev eth0 src 10.9.0.1")
	if reach() == nil {
		t.Error("a pod with a CLAT sends IPv4 of its own")
	}
	check(t, d.Unlink(w.pods[0].path))
	check(t, d.Unlink(w.pods[0].path))
	if err := reach(); err != nil {
		t.Error(err)
	}
	check(t, d.Unlink(w.dir+"/nowhere"))
}

func (s *space) tryPing(to string) (err error) {
	s.within(func() error {
		out, failed := exec.Command("ping", "-c1", "-W1", to).CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("ping %s: %w: %s", to, failed, out)
		}
		return nil
	})
	return err
}

// TestSmallerPodLinks: a pod's Ethernet link may carry less than the TUN links do, also
// from one moment to the next (tunnels between machines do that). What does not fit takes
// the TUN, and nothing is lost without a word.
func TestSmallerPodLinks(t *testing.T) {
	const small = 1380
	w := newWorld(t, 1, 1500)
	w.machine.ip(fmt.Sprintf("link set slp1 mtu %d", small), "addr add fd00:9::9/128 dev lo") // to send errors from
	w.pods[0].ip(fmt.Sprintf("link set eth0 mtu %d", small))
	check(t, w.device.Repair())
	tcp, udp := w.server.serveTCP(echoHashed), w.server.serveUDP(nil)
	for family := range families {
		for size := 1300; size <= 1460; size += 10 {
			w.pods[0].ping(family, size)
		}
		w.askAgain(w.pods[0].dial("udp"+family, endpoint(family, udp), nil), blob(1440))
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, tcp), nil), 1<<20)
	}
	if c := w.fast(); c.In4 == 0 || c.In6 == 0 {
		t.Errorf("nothing took the fast path: %+v", c)
	}
}

// askAgain sends a datagram whose answer does not fit at first: the server, which forbids
// that it is fragmented, is told so, and a later answer comes.
func (w *world) askAgain(conn net.Conn, b []byte) {
	w.t.Helper()
	for try := 1; ; try++ {
		check(w.t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		_, err := conn.Write(b)
		check(w.t, err)
		n, err := conn.Read(make([]byte, 65536))
		if err == nil && n == len(machineIP)+1+len(b) {
			return
		}
		if try == 5 {
			w.t.Fatalf("%d bytes: no answer came whole: %d bytes, %v", len(b), n, err)
		}
	}
}
