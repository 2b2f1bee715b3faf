package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
)

// A pod without any IPv4 of its own reaches a server that has nothing else, by its
// literal address: over TCP, UDP and by ping; and goes on doing so after somebody flushed
// its machine's rules and routes.
func TestPodReachesIPv4OverIPv6(t *testing.T) {
	c := need(t)
	c.remove(t, "translated")
	c.apply(t, 1, "alice", podSpec{name: "translated", args: serve, more: "  network: {ipv4: clat}\n"}.String())
	pod := c.awaitReady(t, 1, "translated")
	n := pod.machine(t)
	server := n%machines + 1
	tcp, udp := c.serveIPv4(t, server)
	check := func() error {
		if got := c.fetch(t, "translated", "http://"+tcp.String()+"/"); got != "only IPv4" {
			return fmt.Errorf("over TCP: %s", got)
		}
		if err := pod.echo(udp); err != nil {
			return fmt.Errorf("over UDP: %w", err)
		}
		return pod.ping(udp.Addr())
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	through := netip.AddrPortFrom(netip.MustParseAddr("64:ff9b:1::"+tcp.Addr().String()), tcp.Port())
	if got := c.fetch(t, "translated", "http://"+through.String()+"/"); got != "only IPv4" {
		t.Errorf("by the address that DNS64 makes: %s", got)
	}

	flush := "nft flush ruleset; ip -4 route flush proto 83; ip -6 route flush proto 83; ip address flush dev slnat64"
	if err := c.lab.Within(n, exec.Command("sh", "-ec", flush).Run); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod's way to IPv4 is repaired", func() bool { return check() == nil })
}

// serveIPv4 answers on a machine's IPv4 address, over TCP and UDP.
func (c *cluster) serveIPv4(t *testing.T, n int) (tcp, udp netip.AddrPort) {
	t.Helper()
	at := netip.AddrPortFrom(c.lab.Address(n), 0).String()
	var l net.Listener
	var p net.PacketConn
	err := c.lab.Within(n, func() (err error) {
		if l, err = net.Listen("tcp4", at); err != nil {
			return err
		}
		p, err = net.ListenPacket("udp4", at)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "only IPv4") })}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close(); p.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := p.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(buf[:n], from)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort(), p.LocalAddr().(*net.UDPAddr).AddrPort()
}

const answerTime = 2 * time.Second

// echo sends a packet from the pod, and wants it back.
func (s seen) echo(to netip.AddrPort) error {
	return s.within(func() error {
		conn, err := net.Dial("udp4", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
			return err
		}
		sent := bytes.Repeat([]byte("starling"), 100)
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.Equal(got, sent) {
			return fmt.Errorf("%d other bytes came back", len(got))
		}
		return nil
	})
}

// ping wants an echo reply.
func (s seen) ping(to netip.Addr) error {
	return s.within(func() error {
		conn, err := icmp.ListenPacket("udp4", "0.0.0.0")
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		defer conn.Close()
		m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{Seq: 1, Data: []byte("starling")}}
		raw, err := m.Marshal(nil)
		if err != nil {
			return err
		}
		if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
			return err
		}
		if _, err := conn.WriteTo(raw, &net.UDPAddr{IP: to.AsSlice()}); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		buf := make([]byte, 256)
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		reply, err := icmp.ParseMessage(1, buf[:n])
		if err != nil || reply.Type != ipv4.ICMPTypeEchoReply {
			return fmt.Errorf("ping: the answer is %v, %w", reply, err)
		}
		return nil
	})
}
