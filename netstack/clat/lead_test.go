package clat_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"
)

// hello takes connections at a port of the namespace's IPv6 addresses, says something that
// fills many packets, and tells who connected.
func (s *space) hello(port int) (seen chan netip.Addr) {
	s.t.Helper()
	var l net.Listener
	s.within(func() (err error) {
		l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		return err
	})
	s.t.Cleanup(func() { l.Close() })
	seen = make(chan netip.Addr, 1) // each test asks once at a time
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			seen <- conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
			_, _ = conn.Write(make([]byte, saidBytes))
			conn.Close()
		}
	}()
	return seen
}

const saidBytes = 100_000

// hears connects within a time, and returns how much the other side says.
func (s *space) hears(network, to string, within time.Duration) (n int64, err error) {
	err = withinFor(s, func() error {
		conn, err := net.DialTimeout(network, to, within)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		n, err = io.Copy(io.Discard, conn)
		return err
	})
	return n, err
}

// withinFor is within for what may fail.
func withinFor(s *space, f func() error) (err error) {
	s.within(func() error { err = f(); return nil })
	return err
}

// TestLead: what the machine itself leads to an address of the range gets through, to a pod
// that has IPv4 and to one that has none, and the client is seen behind the NAT64 prefix. A
// pod that is only led to opens nothing.
func TestLead(t *testing.T) {
	w := newWorld(t, 1, 1500)
	w.addPod(2) // the Device does not serve it
	none := podAddress(2)
	lead := func(list ...netip.Addr) netip.Addr {
		t.Helper()
		led, err := w.device.Lead(list)
		check(t, err)
		if len(led) != len(list) {
			t.Fatalf("for %v there is %v", list, led)
		}
		return led[none]
	}
	to := lead(none)
	if again := lead(netip.MustParseAddr("fd00:1::99"), none); again != to {
		t.Fatalf("led to by %v, then by %v", to, again)
	}
	rules := fmt.Sprintf("table ip lead { chain prerouting { type nat hook prerouting priority -100; tcp dport 81 dnat to %s:7; tcp dport 82 dnat to %s:7; }; }",
		w.device.Addresses("pod1")[0], to)
	w.machine.within(func() error {
		out, err := exec.Command("nft", rules).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	for i, pod := range w.pods {
		at := fmt.Sprintf("%s:%d", machineIP, 81+i)
		seen := pod.hello(7)
		n, err := w.server.hears("tcp4", at, patience)
		if err != nil || n != saidBytes {
			t.Errorf("from %s come %d bytes, %v", at, n, err)
			continue
		}
		if from := <-seen; from != netip.MustParseAddr(serverIP6) {
			t.Errorf("at %s the client is seen as %s", at, from)
		}
	}
	port := w.server.serveTCP(func(net.Conn) {})
	if _, err := w.pods[0].hears("tcp6", endpoint("6", port), patience); err != nil {
		t.Errorf("the pod that is served: %v", err)
	}
	if _, err := w.pods[1].hears("tcp6", endpoint("6", port), time.Second); err == nil {
		t.Error("a pod that is only led to has opened a connection")
	}
	lead()
	if _, err := w.server.hears("tcp4", machineIP+":82", time.Second); err == nil {
		t.Error("what is no longer led to is reached")
	}
}
