package clat_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
)

func rawControl(control func(fd int) error) func(string, string, syscall.RawConn) error {
	if control == nil {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = control(int(fd)) })
		return errors.Join(failed, err)
	}
}

func sockopt(level, name, value int) func(int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) }
}

func endpoint(family string, port int) string {
	return net.JoinHostPort(families[family], fmt.Sprint(port))
}

func blob(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	return b
}

// upload sends size bytes, and wants their hash back.
func upload(t testing.TB, conn net.Conn, size int) {
	t.Helper()
	data := blob(size)
	_, err := conn.Write(data)
	check(t, err)
	check(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	check(t, err)
	if want := sha256.Sum256(data); !bytes.Equal(got, append(want[:], data...)) {
		t.Fatalf("%d bytes went there, and %d came back that are not the same", size, len(got)-len(want))
	}
}

// echoHashed is the other side of upload: the hash, then everything back.
func echoHashed(conn net.Conn) {
	data, err := io.ReadAll(conn)
	if err != nil {
		return
	}
	sum := sha256.Sum256(data)
	_, _ = conn.Write(append(sum[:], data...))
}

func TestTCP(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveTCP(echoHashed)
	for family := range families {
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, port), nil), 4<<20)
	}
	if lost := w.device.Lost(); len(lost) > 0 {
		t.Errorf("packets were lost: %v", lost)
	}
}

func TestOnlyTheMachineIsSeen(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveUDP(nil)
	for family := range families {
		conn := w.pods[0].dial("udp"+family, endpoint(family, port), nil)
		if got, want := ask(t, conn, []byte("x")), machineIP+" x"; got != want {
			t.Errorf("IPv%s: the server saw %q, want %q", family, got, want)
		}
	}
}

func ask(t testing.TB, conn net.Conn, b []byte) string {
	t.Helper()
	_, err := conn.Write(b)
	check(t, err)
	answer := make([]byte, 65536)
	n, err := conn.Read(answer)
	check(t, err)
	return string(answer[:n])
}

func TestUDPWithoutChecksum(t *testing.T) {
	w := newWorld(t, 1, 1500)
	bare := sockopt(unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
	port := w.server.serveUDP(bare)
	// The pod sends without in one direction, the server in the other.
	conn := w.pods[0].dial("udp4", endpoint("4", port), bare)
	ask(t, conn, []byte("no checksum there or back"))
	conn = w.pods[0].dial("udp6", endpoint("6", port), nil)
	ask(t, conn, []byte("no checksum back"))
}

// TestUDPFragments: datagrams larger than any MTU, both ways.
func TestUDPFragments(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveUDP(nil)
	for family := range families {
		conn := w.pods[0].dial("udp"+family, endpoint(family, port), nil)
		big := blob(20000)
		if got := ask(t, conn, big); got != machineIP+" "+string(big) {
			t.Errorf("IPv%s: the datagram came back changed (%d bytes)", family, len(got))
		}
	}
}

// TestUDPBurst sends superpackets (UDP_SEGMENT), as QUIC does.
func TestUDPBurst(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveUDP(nil)
	for family := range families {
		conn := w.pods[0].dial("udp"+family, endpoint(family, port), sockopt(unix.SOL_UDP, unix.UDP_SEGMENT, 1000))
		_, err := conn.Write(blob(20000))
		check(t, err)
		b := make([]byte, 2000)
		for i := range 20 {
			n, err := conn.Read(b)
			check(t, err)
			if want := len(machineIP) + 1 + 1000; n != want {
				t.Fatalf("IPv%s, datagram %d: %d bytes came back, want %d", family, i, n, want)
			}
		}
	}
}

func TestPing(t *testing.T) {
	w := newWorld(t, 1, 1500)
	for family := range families {
		for _, size := range []int{0, 56, 1472, 60000} {
			w.pods[0].ping(family, size)
		}
	}
	if lost := w.device.Lost(); len(lost) > 0 {
		t.Errorf("packets were lost: %v", lost)
	}
}

// ping sends an echo request with size bytes and waits for the same to come back.
func (s *space) ping(family string, size int) {
	s.t.Helper()
	network, request, reply := "ip4:icmp", byte(8), byte(0)
	if family == "6" {
		// The kernel knows where the checksum of an ICMPv6 message is.
		network, request, reply = "ip6:ipv6-icmp", 128, 129
	}
	conn := s.dial(network, families[family], nil)
	message := append([]byte{request, 0, 0, 0, 0, 7, 0, 1}, blob(size)...)
	if family == "4" {
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	_, err := conn.Write(message)
	check(s.t, err)
	b := make([]byte, 65536)
	for {
		n, _, err := conn.(*net.IPConn).ReadFrom(b) // Read would return the IPv4 header too
		if err != nil {
			s.t.Fatalf("IPv%s, %d bytes: %v", family, size, err)
		}
		if b[0] != reply {
			continue
		}
		if !bytes.Equal(b[4:n], message[4:]) {
			s.t.Fatalf("IPv%s: %d bytes came back changed", family, size)
		}
		return
	}
}

func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i]) << 8
		if i+1 < len(b) {
			s += uint32(b[i+1])
		}
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// TestPathMTU: the server's link takes less than the pod's, and both TCP and a program
// that asks for the path's MTU find out.
func TestPathMTU(t *testing.T) {
	const narrow = 1300
	w := newWorld(t, 1, narrow)
	port := w.server.serveTCP(echoHashed)
	udp := w.server.serveUDP(nil)
	for family, v := range map[string]struct{ level, discover, do, mtu, want int }{
		"4": {unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_MTU, narrow},
		"6": {unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_MTU, narrow + 20},
	} {
		conn := w.pods[0].dial("udp"+family, endpoint(family, udp), sockopt(v.level, v.discover, v.do))
		if got := discover(t, conn.(*net.UDPConn), v.level, v.mtu); got != v.want {
			t.Errorf("IPv%s: the path's MTU was found to be %d, want %d", family, got, v.want)
		}
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, port), nil), 1<<20)
	}
}

// discover sends datagrams that are too large until the socket has learned so.
func discover(t testing.TB, conn *net.UDPConn, level, option int) (mtu int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	check(t, err)
	_, err = conn.Write(blob(1400))
	check(t, err)
	// The error arrives as the result of the next call.
	if _, err := conn.Read(make([]byte, 10)); !errors.Is(err, unix.EMSGSIZE) {
		t.Fatalf("a datagram of 1,400 bytes: %v, want %v", err, unix.EMSGSIZE)
	}
	check(t, raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), level, option) }))
	check(t, err)
	return mtu
}

func TestClosedPortIsRefused(t *testing.T) {
	w := newWorld(t, 1, 1500)
	for family := range families {
		conn := w.pods[0].dial("udp"+family, endpoint(family, 9), nil)
		_, err := conn.Write([]byte("x"))
		check(t, err)
		if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("IPv%s: %v, want %v", family, err, unix.ECONNREFUSED)
		}
	}
}

// TestPodsAreKeptApart: two pods have the same IPv4 address, and use the same port.
func TestPodsAreKeptApart(t *testing.T) {
	w := newWorld(t, 2, 1500)
	port := w.server.serveUDP(nil)
	var conns []net.Conn
	for _, p := range w.pods {
		p.within(func() error {
			d := net.Dialer{Timeout: patience, LocalAddr: &net.UDPAddr{IP: net.ParseIP("192.0.0.2"), Port: 4000}}
			conn, err := d.Dial("udp4", endpoint("4", port))
			conns = append(conns, conn)
			return err
		})
	}
	for i, conn := range conns {
		t.Cleanup(func() { conn.Close() })
		check(t, conn.SetDeadline(time.Now().Add(patience)))
		want := fmt.Sprintf("%s pod %d", machineIP, i)
		if got := ask(t, conn, fmt.Appendf(nil, "pod %d", i)); got != want {
			t.Errorf("pod %d got %q, want %q", i, got, want)
		}
	}
}

// TestRestart: a peer that starts again takes over links and connections.
func TestRestart(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveTCP(func(c net.Conn) { _, _ = io.Copy(c, c) })
	conn := w.pods[0].dial("tcp4", endpoint("4", port), nil)
	ask(t, conn, []byte("before"))
	w.stop()
	w.start()
	if got := ask(t, conn, []byte("after")); got != "after" {
		t.Errorf("the connection returned %q", got)
	}
}

func TestRemove(t *testing.T) {
	w := newWorld(t, 2, 1500)
	check(t, w.device.Remove("pod1"))
	check(t, w.device.Remove("pod1"))
	check(t, w.device.Add(w.spec(2)))
	w.pods[0].within(func() error {
		if _, err := net.InterfaceByName("clat"); err == nil {
			return errors.New("the removed pod still has its link")
		}
		return nil
	})
	port := w.server.serveTCP(echoHashed)
	upload(t, w.pods[1].dial("tcp4", endpoint("4", port), nil), 1000)
}

// TestRepair: whatever others take away comes back, and a link that was deleted does when
// the pod is added again.
func TestRepair(t *testing.T) {
	w := newWorld(t, 1, 1500)
	port := w.server.serveTCP(echoHashed)
	w.machine.ip("route flush dev slnat64", "-6 route flush dev slnat64", "addr flush dev slnat64")
	w.nft(w.machine, "flush ruleset")
	w.pods[0].ip("addr flush dev clat", "link set clat down")
	check(t, w.device.Repair())
	for family := range families {
		upload(t, w.pods[0].dial("tcp"+family, endpoint(family, port), nil), 1000)
	}
	w.pods[0].ip("link delete clat")
	w.readd(1)
	upload(t, w.pods[0].dial("tcp4", endpoint("4", port), nil), 1000)
}

// readd adds a pod until its link is there again: the Device learns of the loss when its
// reader does.
func (w *world) readd(n int) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		check(w.t, w.device.Add(w.spec(n)))
		err := linux.Within(w.pods[n-1].fd, func() error {
			_, err := net.InterfaceByName("clat")
			return err
		})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(err)
		}
	}
}

// TestSpoofing: a pod can't send in the name of anybody else.
func TestSpoofing(t *testing.T) {
	w := newWorld(t, 1, 1500)
	pod := w.pods[0]
	// The kernel lets root use any address that is on a link.
	pod.ip("addr add 192.0.2.99/32 dev clat", "addr add 64:ff9b:1::192.0.2.99/128 dev eth0 nodad",
		"addr add 64:ff9b:1:1::10.62.200.200/128 dev eth0 nodad")
	for from, to := range map[string]string{
		"192.0.2.99": serverIP, "64:ff9b:1::192.0.2.99": serverIP6, "64:ff9b:1:1::10.62.200.200": serverIP6,
	} {
		before := w.device.Lost()["spoofed"]
		pod.within(func() error {
			d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
			conn, err := d.Dial("udp", net.JoinHostPort(to, "9"))
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write([]byte("x"))
			return err
		})
		for deadline := time.Now().Add(patience); w.device.Lost()["spoofed"] == before; {
			if time.Now().After(deadline) {
				t.Fatalf("a packet from %s went through: %v", from, w.device.Lost())
			}
		}
	}
}

// TestStrangersStayOut: what no pod has asked for does not reach it, nor do pods reach
// each other this way.
func TestStrangersStayOut(t *testing.T) {
	w := newWorld(t, 2, 1500)
	w.router.ip("route add 10.62.0.0/16 via " + machineIP)
	w.pods[0].within(func() error {
		l, err := net.Listen("tcp", ":7000")
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	found := w.device.Addresses("pod1")
	if len(found) != 2 {
		t.Fatalf("the pod has %v in the machine's range, want two addresses", found)
	}
	for _, a := range found {
		for who, s := range map[string]*space{"a stranger": w.router, "another pod": w.pods[1]} {
			s.within(func() error {
				conn, err := net.DialTimeout("tcp4", net.JoinHostPort(a.String(), "7000"), 300*time.Millisecond)
				if err == nil {
					conn.Close()
					return fmt.Errorf("%s reached the pod at %v", who, a)
				}
				return nil
			})
		}
	}
}

// TestForeignTablesStay: our table is replaced at each start, others are left alone.
func TestForeignTablesStay(t *testing.T) {
	w := newWorld(t, 0, 1500)
	nft := func(args ...string) (out string) {
		w.machine.within(func() error {
			b, err := exec.Command("nft", args...).CombinedOutput()
			out = string(b)
			return err
		})
		return out
	}
	nft("add", "table", "ip", "foreign")
	w.stop()
	w.start()
	tables := nft("list", "tables")
	for _, want := range []string{"table ip foreign", "table ip starling-slnat64"} {
		if !strings.Contains(tables, want) {
			t.Errorf("%q is missing from %q", want, tables)
		}
	}
	if rules := nft("list", "table", "ip", "starling-slnat64"); strings.Count(rules, "masquerade") != 2 { // chain and rule
		t.Errorf("the table after a second start:\n%s", rules)
	}
}
