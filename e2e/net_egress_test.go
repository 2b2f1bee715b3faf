package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"starling.dev/starling/lab"
	"starling.dev/starling/netstack/linux"
)

// The server of this file has no IPv6, and stands behind another machine, on a link that
// takes less than the pods' links do.
const (
	onlyIPv4   = "198.51.100.2"
	onlyIPv4As = "64:ff9b:1::c633:6402" // what DNS64 makes of it
	onlyName   = "only4.example."
	narrowMTU  = 1300
)

// far is that server.
type far struct {
	t    *testing.T
	path string // of its namespace
	tcp  int    // takes what is sent, and answers with how much it was
	udp  int    // echoes, with a checksum
	bare int    // echoes without
}

// A pod reaches a server that has only IPv4, by its literal address and by the name that
// DNS64 answers for: over TCP, UDP with and without checksum, by ping, by one that takes
// many fragments, and by a path whose MTU it has to find out.
func TestPodReachesAServerWithoutIPv6(t *testing.T) {
	c := need(t)
	c.remove(t, "translated")
	c.apply(t, 1, "alice", podSpec{name: "translated", args: serve, more: "  network: {ipv4: clat}\n"}.String())
	pod := c.awaitReady(t, 1, "translated")
	n := pod.machine(t)
	server := c.behind(t, n, n%machines+1)
	c.answerNames(t, n)

	var named string
	own := c.nameserver(t, pod)
	until(t, "DNS64 answers for the server", func() bool {
		named = pod.resolve(t, own, onlyName+" AAAA")
		return named == onlyIPv4As
	})
	for family, address := range map[string]string{"4": onlyIPv4, "6": named} {
		t.Run("IPv"+family, func(t *testing.T) {
			at := func(port int) string { return net.JoinHostPort(address, fmt.Sprint(port)) }
			plain := func(fd int) error { return nil }
			bare := plain
			if family == "4" { // IPv6 knows no UDP without a checksum
				bare = func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }
			}
			for what, try := range map[string]func() error{
				"UDP":                               func() error { return pod.echoes("udp"+family, at(server.udp), plain, 100) },
				"UDP without checksum, both ways":   func() error { return pod.echoes("udp"+family, at(server.bare), bare, 100) },
				"UDP in fragments":                  func() error { return pod.echoes("udp"+family, at(server.udp), plain, 20000) },
				"ping":                              func() error { return pod.pings(address, "-s", "56") },
				"ping of 60 kB":                     func() error { return pod.pings(address, "-s", "60000") },
				"TCP past the narrow link":          func() error { return pod.uploads("tcp"+family, at(server.tcp), 1<<20) },
				"UDP learns the path's MTU by ICMP": func() error { return pod.learnsMTU(family, at(server.udp)) },
			} {
				t.Run(what, func(t *testing.T) {
					if err := try(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
	c.showsTranslation(t, n)
}

// showsTranslation: what has been done for the pods of a machine can be seen.
func (c *cluster) showsTranslation(t *testing.T, n int) {
	t.Helper()
	said := c.must(t, 1, "status", fmt.Sprintf("machine/m%d", n), "--net")
	for _, want := range []string{
		`nat64 in the kernel \((tcx|clsact)\): IPv6 [1-9]\d* out [1-9]\d* in, IPv4 [1-9]\d* out [1-9]\d* in`, `conntrack [1-9]\d* of \d+ connections`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("the network of m%d does not show %s:\n%s", n, want, said)
		}
	}
}

// behind makes the server: a namespace behind machine via, which machine n routes to.
func (c *cluster) behind(t *testing.T, n, via int) *far {
	t.Helper()
	path := filepath.Join(t.TempDir(), "only4")
	fd, _, err := linux.MakeNamespace(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd); _ = linux.RemoveNamespace(path) })
	f := &far{t: t, path: path}
	sh := func(n int, script string) {
		t.Helper()
		var out []byte
		run := func() (err error) {
			out, err = exec.Command("sh", "-ec", script).CombinedOutput()
			return err
		}
		within := f.within
		if n > 0 {
			within = func(f func() error) error { return c.lab.Within(n, f) }
		}
		if err := within(run); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	sh(via, fmt.Sprintf("ip link add only4 mtu %d type veth peer name eth0 netns /proc/%d/fd/%d; ip link set only4 up; ip addr add 198.51.100.1/24 dev only4; echo 1 >/proc/sys/net/ipv4/ip_forward", narrowMTU, os.Getpid(), fd))
	t.Cleanup(func() { _ = c.lab.Within(via, exec.Command("ip", "link", "del", "only4").Run) })
	sh(0, fmt.Sprintf("ip link set lo up; ip link set eth0 mtu %d up; ip addr add %s/24 dev eth0; ip route add default via 198.51.100.1", narrowMTU, onlyIPv4))
	sh(n, fmt.Sprintf("ip route replace 198.51.100.0/24 via %s", c.lab.Address(via)))
	t.Cleanup(func() { _ = c.lab.Within(n, exec.Command("ip", "route", "del", "198.51.100.0/24").Run) })
	f.serve()
	return f
}

func (f *far) within(do func() error) error {
	fd, err := linux.OpenNamespace(f.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, do)
}

func (f *far) serve() {
	f.t.Helper()
	var l net.Listener
	var udp, bare net.PacketConn
	err := f.within(func() (err error) {
		if l, err = net.Listen("tcp4", onlyIPv4+":0"); err != nil {
			return err
		}
		if udp, err = net.ListenPacket("udp4", onlyIPv4+":0"); err != nil {
			return err
		}
		lc := net.ListenConfig{Control: control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })}
		bare, err = lc.ListenPacket(context.Background(), "udp4", onlyIPv4+":0")
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { l.Close(); udp.Close(); bare.Close() })
	f.tcp, f.udp, f.bare = l.Addr().(*net.TCPAddr).Port, udp.LocalAddr().(*net.UDPAddr).Port, bare.LocalAddr().(*net.UDPAddr).Port
	go echoAll(udp)
	go echoAll(bare)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				size, _ := io.Copy(io.Discard, conn)
				fmt.Fprint(conn, size)
			}()
		}
	}()
}

func echoAll(p net.PacketConn) {
	buf := make([]byte, 65536)
	for {
		n, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = p.WriteTo(buf[:n], from)
	}
}

// answerNames runs a resolver on machine n that knows the server by its name, with an A
// record alone, and has the machine use it.
func (c *cluster) answerNames(t *testing.T, n int) {
	t.Helper()
	const at = "127.0.0.53"
	var p net.PacketConn
	err := c.lab.Within(n, func() (err error) {
		p, err = net.ListenPacket("udp4", at+":53")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: p, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if name := q.Question[0]; name.Name == onlyName && name.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: onlyName, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(onlyIPv4)})
		}
		_ = w.WriteMsg(m)
	})}
	go srv.ActivateAndServe()
	file := filepath.Join(lab.DataDir, labName, fmt.Sprint(n), "data", "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver "+at+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Shutdown(); _ = os.Remove(file) })
}

func control(set func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = set(int(fd)) })
		return errors.Join(err, failed)
	}
}

// dial connects from the pod.
func (s seen) dial(network, to string, set func(fd int) error) (conn net.Conn, err error) {
	err = s.within(func() (err error) {
		d := net.Dialer{Timeout: answerTime, Control: control(set)}
		conn, err = d.Dial(network, to)
		return err
	})
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(answerTime))
	}
	return conn, err
}

// echoes sends a datagram and wants it back.
func (s seen) echoes(network, to string, set func(fd int) error, size int) error {
	conn, err := s.dial(network, to, set)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := bytes.Repeat([]byte("s"), size)
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	got := make([]byte, 65536)
	n, err := conn.Read(got)
	if err == nil && !bytes.Equal(got[:n], sent) {
		err = fmt.Errorf("%d other bytes came back", n)
	}
	return err
}

// pings wants every echo reply.
func (s seen) pings(to string, args ...string) error {
	return s.within(func() error {
		out, err := exec.Command("ping", append([]string{"-n", "-c", "3", "-i", "0.2", "-W", "2", to}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " 0% packet loss") {
			return fmt.Errorf("ping %s %q: %v: %s", to, args, err, out)
		}
		return nil
	})
}

// uploads sends a stream, and wants the other side to have it all.
func (s seen) uploads(network, to string, size int) error {
	conn, err := s.dial(network, to, func(int) error { return nil })
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, size)); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err == nil && string(got) != fmt.Sprint(size) {
		err = fmt.Errorf("%s bytes of %d arrived", got, size)
	}
	return err
}

// learnsMTU sends what is too large for the path, and wants to be told by how much.
func (s seen) learnsMTU(family, to string) error {
	level, discover, do, mtu, want := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_MTU, narrowMTU
	if family == "6" {
		level, discover, do, mtu, want = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_MTU, narrowMTU+20
	}
	conn, err := s.dial("udp"+family, to, func(fd int) error { return unix.SetsockoptInt(fd, level, discover, do) })
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, 1400)); err == nil {
		_, err = conn.Read(make([]byte, 10)) // the error arrives as the result of the next call
		if !errors.Is(err, unix.EMSGSIZE) {
			return fmt.Errorf("1,400 bytes: %v, want %v", err, unix.EMSGSIZE)
		}
	} else if !errors.Is(err, unix.EMSGSIZE) { // a stream has found it out before
		return err
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	var got int
	var failed error
	err = raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), level, mtu) })
	if err == nil && failed == nil && got != want {
		err = fmt.Errorf("the path's MTU is %d, want %d", got, want)
	}
	return errors.Join(err, failed)
}
