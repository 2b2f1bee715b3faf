package linux_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// sh runs a shell command in the machine's namespace, as a person would.
func (m *machine) sh(t testing.TB, script string) string {
	t.Helper()
	return shell(t, m.node.Namespace, script)
}

func shell(t testing.TB, path, script string) string {
	t.Helper()
	var out []byte
	err := in(t, path, func() (err error) {
		out, err = exec.Command("sh", "-ec", script).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// echo answers each TCP connection with what it receives.
func echo(t testing.TB, path string, addr netip.Addr) netip.AddrPort {
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
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// ping sends one echo request with so many bytes, and waits for its reply.
func ping(t testing.TB, path string, to netip.Addr, size int) error {
	network, listen, proto := "ip6:ipv6-icmp", "::", 58
	var kind icmp.Type = ipv6.ICMPTypeEchoRequest
	if to.Is4() {
		network, listen, proto, kind = "ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho
	}
	var conn *icmp.PacketConn
	check(t, in(t, path, func() (err error) {
		conn, err = icmp.ListenPacket(network, listen)
		return err
	}))
	defer conn.Close()
	message := icmp.Message{Type: kind, Body: &icmp.Echo{ID: 7, Seq: size & 0xffff, Data: make([]byte, size)}}
	b, err := message.Marshal(nil)
	check(t, err)
	if _, err := conn.WriteTo(b, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return err
	}
	conn.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 1<<16)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("ping %s with %d bytes: %w", to, size, err)
		}
		reply, err := icmp.ParseMessage(proto, buf[:n])
		if err != nil {
			return err
		}
		if e, ok := reply.Body.(*icmp.Echo); ok && len(e.Data) == size &&
			(reply.Type == ipv6.ICMPTypeEchoReply || reply.Type == ipv4.ICMPTypeEchoReply) {
			return nil
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
