package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flow is an open connection of a client to a service, answered with the pod's name.
type flow struct{ net.Conn }

// ask sends a few bytes and returns who answers.
func (f flow) ask() (string, error) {
	buf := make([]byte, 64)
	if err := f.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return "", err
	}
	if _, err := f.Write([]byte("who?")); err != nil {
		return "", err
	}
	n, err := f.Read(buf)
	return string(buf[:n]), err
}

// names answers what comes to port 9 of the pod, over UDP and TCP, with the pod's name. It
// goes on when the pod is gone, as a machine that is cut off would: nothing ends its flows.
func (s seen) names(t *testing.T, name string) {
	t.Helper()
	var packets net.PacketConn
	var listener net.Listener
	err := s.within(func() (err error) {
		if packets, err = net.ListenPacket("udp6", "[::]:9"); err != nil {
			return err
		}
		listener, err = net.Listen("tcp6", "[::]:9")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close(); listener.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(name), from)
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				buf := make([]byte, 64)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					_, _ = conn.Write([]byte(name))
				}
			}()
		}
	}()
}

func (s seen) flowTo(t *testing.T, network string, to netip.AddrPort) (flow, error) {
	t.Helper()
	conn, err := s.dial(network, to.String(), func(int) error { return nil })
	if err != nil {
		return flow{}, err
	}
	t.Cleanup(func() { conn.Close() })
	return flow{conn}, nil
}

// What a machine's kernel remembers of a service's connections goes with their pod: a flow over
// UDP that never pauses goes on with another pod, and a connection over TCP is reset when its
// client writes, where it would wait for ever.
func TestConnectionsGoWithTheirEndpoint(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/web1", "pod/web2", "pod/client", "service/web")
	ports := "kind: Service\nname: web\nspec:\n  select: {app: web}\n  address: true\n" +
		"  ports: {udp: {port: 9, protocol: udp}, tcp: {port: 9}}\n"
	c.apply(t, 1, "alice", join(web("web1"), web("web2"), podSpec{name: "client", args: serve}.String(), ports))
	pods := map[string]seen{}
	for _, name := range []string{"web1", "web2"} {
		pods[name] = c.awaitReady(t, 1, name)
		pods[name].names(t, name)
	}
	client := c.awaitReady(t, 1, "client")
	home := numberOf(t, client.status("machine"))
	to := netip.AddrPortFrom(netip.MustParseAddr(c.awaitService(t, 1, "web")), 9)
	var udp, tcp flow
	var first string
	until(t, "both flows are answered by one pod", func() bool {
		var err, failed error
		udp, err = client.flowTo(t, "udp", to)
		tcp, failed = client.flowTo(t, "tcp", to)
		if err != nil || failed != nil {
			return false // its machine has not heard of the pods yet
		}
		first, err = udp.ask()
		also, failed := tcp.ask()
		return err == nil && failed == nil && first == also
	})
	address := pods[first].status("address")
	if c.conntrackOf(t, home, address) == "" {
		t.Fatalf("m%d remembers no connection to %s: this test can't tell anything", home, address)
	}
	other := map[string]string{"web1": "web2", "web2": "web1"}[first]
	c.must(t, 2, "delete", "pod/"+first)
	until(t, "the flow goes on with "+other, func() bool {
		by, err := udp.ask()
		return err == nil && by == other
	})
	c.awaitGone(t, 1, first)
	until(t, "the connection is reset", func() bool {
		_, err := tcp.ask()
		return errors.Is(err, unix.ECONNRESET)
	})
	until(t, "nothing is remembered", func() bool { return c.conntrackOf(t, home, address) == "" })
}

// conntrackOf lists what a machine's kernel remembers of connections that an address answers.
func (c *cluster) conntrackOf(t *testing.T, n int, address string) string {
	t.Helper()
	var out []byte
	err := c.lab.Within(n, func() (err error) {
		out, err = exec.Command("conntrack", "-L", "-f", "ipv6", "--reply-src", address).Output()
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("list the connections of m%d: %w", n, err))
	}
	return string(out)
}
