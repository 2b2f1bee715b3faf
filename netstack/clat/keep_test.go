package clat_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/linux"
)

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

// TestOneDeviceAtATime: a second one on the same machine says what is in its way, and
// disturbs nothing.
func TestOneDeviceAtATime(t *testing.T) {
	w := newWorld(t, 1, 1500)
	second, err := clat.New(clat.Config{Machine: w.machine.path, Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	err = second.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "slnat64: another process holds it") {
		t.Errorf("the second device ended with %v", err)
	}
	if err := second.Add(w.spec(1)); err == nil || !strings.Contains(err.Error(), "clat: another process holds it") {
		t.Errorf("the pod's link was opened a second time: %v", err)
	}
	port := w.server.serveTCP(echoHashed)
	upload(t, w.pods[0].dial("tcp4", endpoint("4", port), nil), 1000)
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
