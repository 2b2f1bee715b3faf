package clat_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
