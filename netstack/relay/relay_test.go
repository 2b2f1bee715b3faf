package relay

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"starling.dev/starling/netstack/service"
)

// pod echoes TCP and UDP at an IPv6 address.
func pod(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	c, err := net.ListenPacket("udp6", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); c.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	return at
}

// A client's bytes reach a pod and come back, whichever end closes first, and a pod that
// does not take connections is passed over.
func TestRelay(t *testing.T) {
	good := pod(t)
	dead := netip.AddrPortFrom(good.Addr(), 1)
	r := New(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), good.Port())
	tcp := service.Where{Address: at.Addr(), Protocol: "tcp", Port: at.Port()}
	udp := service.Where{Address: at.Addr(), Protocol: "udp", Port: at.Port()}
	r.Set([]service.Forward{{Where: tcp, Endpoints: []netip.AddrPort{dead, good}}, {Where: udp, Endpoints: []netip.AddrPort{good}}})
	for range 8 {
		conn := dial(t, "tcp4", at)
		if _, err := conn.Write([]byte("starling")); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "starling" {
			t.Fatalf("over TCP: %q, %v", got, err)
		}
		conn.Close()
	}
	conn := dial(t, "udp4", at)
	defer conn.Close()
	buf := make([]byte, 64)
	for n := 0; n == 0; { // the first may come before the relay listens
		_, _ = conn.Write([]byte("starling"))
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, _ = conn.Read(buf)
	}
	r.Set(nil)
	eventually(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp4", at.String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A port that somebody has is named, and taken when it is free.
func TestRelayTriesAgain(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	at := other.Addr().(*net.TCPAddr).AddrPort()
	r := New(slog.New(slog.DiscardHandler))
	go func() { _ = r.Run(t.Context()) }()
	w := service.Where{Address: at.Addr(), Protocol: "tcp", Port: at.Port()}
	r.Set([]service.Forward{{Where: w, Endpoints: []netip.AddrPort{pod(t)}}})
	eventually(t, "the failure is told", func() bool { return r.Failed()[w] != nil })
	other.Close()
	eventually(t, "the port is taken", func() bool { return r.Failed()[w] == nil })
	dial(t, "tcp4", at).Close()
}

func dial(t *testing.T, network string, at netip.AddrPort) (conn net.Conn) {
	t.Helper()
	eventually(t, "a connection to "+at.String(), func() (ok bool) {
		var err error
		conn, err = net.Dial(network, at.String())
		return err == nil
	})
	return conn
}

func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for ticker := time.NewTicker(5 * time.Millisecond); !met(); {
		select {
		case <-deadline:
			t.Fatal("not in time: " + what)
		case <-ticker.C:
		}
	}
}
