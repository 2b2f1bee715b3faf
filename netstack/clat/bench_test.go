package clat_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkEgress measures one TCP stream from a pod to the server, in each way that
// there is: plain routing, the kernel's masquerading, our NAT64 from an IPv6 program,
// our CLAT from an IPv4 program, and NAT64 by tayga.
func BenchmarkEgress(b *testing.B) {
	w := newWorld(b, 1, 1500)
	port := w.server.serveTCP(func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		fmt.Fprint(c, n)
	})
	w.routePlainly()
	tayga := w.startTayga()
	for _, way := range []struct{ name, address string }{
		{"plain", "198.51.100.3"}, {"masquerade", "198.51.100.4"},
		{"nat64", serverIP6}, {"clat", serverIP}, {"tayga", tayga},
	} {
		b.Run(way.name, func(b *testing.B) {
			if way.address == "" {
				b.Skip("tayga is not installed")
			}
			w.stream(b, net.JoinHostPort(way.address, fmt.Sprint(port)))
		})
	}
}

// stream sends b.N chunks and waits until the server has them all.
func (w *world) stream(b *testing.B, to string) {
	conn := w.pods[0].dial("tcp", to, nil)
	check(b, conn.SetDeadline(time.Now().Add(time.Minute)))
	chunk := blob(1 << 20)
	b.SetBytes(int64(len(chunk)))
	b.ResetTimer()
	for range b.N {
		_, err := conn.Write(chunk)
		check(b, err)
	}
	check(b, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	check(b, err)
	if want := fmt.Sprint(b.N * len(chunk)); string(got) != want {
		b.Fatalf("the server got %s bytes of %s", got, want)
	}
	b.ReportMetric(float64(b.N)*float64(len(chunk))*8/1e9/b.Elapsed().Seconds(), "Gbit/s")
}

// routePlainly gives the pod an IPv4 address of the usual kind, with which it reaches
// the server's second address unchanged and its third masqueraded.
func (w *world) routePlainly() {
	w.pods[0].ip("addr add 10.9.0.1/32 dev eth0",
		"route add 198.51.100.3/32 via inet6 fe80::1 dev eth0 src 10.9.0.1",
		"route add 198.51.100.4/32 via inet6 fe80::1 dev eth0 src 10.9.0.1")
	w.machine.ip("route add 10.9.0.1/32 dev slp1")
	w.router.ip("route add 10.9.0.1/32 via " + machineIP)
	w.server.ip("addr add 198.51.100.3/24 dev eth0", "addr add 198.51.100.4/24 dev eth0")
	w.nft(w.machine, `table ip bench { chain post { type nat hook postrouting priority srcnat;
		ip saddr 10.9.0.1 ip daddr 198.51.100.4 masquerade
		ip saddr 10.61.0.0/24 masquerade
	}
}
`)
}

func (w *world) nft(s *space, script string) {
	s.within(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}

// startTayga runs tayga on the machine, and returns the server's address through it.
func (w *world) startTayga() string {
	program, err := exec.LookPath("tayga")
	if err != nil {
		return ""
	}
	config := filepath.Join(w.dir, "tayga.conf")
	check(w.t, os.WriteFile(config, []byte(`tun-device tayga0
ipv4-addr 10.61.0.1
ipv6-addr fd00:61::1
prefix fd00:64::/96
dynamic-pool 10.61.0.0/24
data-dir `+w.dir+"\n"), 0o600))
	w.machine.within(func() error {
		out, err := exec.Command(program, "-c", config, "--mktun").CombinedOutput()
		if err != nil {
			return fmt.Errorf("tayga --mktun: %w: %s", err, out)
		}
		cmd := exec.Command(program, "-c", config, "-d")
		if err := cmd.Start(); err != nil {
			return err
		}
		w.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return nil
	})
	w.machine.ip("link set tayga0 up", "route add 10.61.0.0/24 dev tayga0", "route add fd00:64::/96 dev tayga0")
	return "fd00:64::198.51.100.2"
}

// BenchmarkAdd measures how long it takes to give a pod its way to IPv4 and to take it
// away again, on a machine that serves others.
func BenchmarkAdd(b *testing.B) {
	w := newWorld(b, 10, 1500)
	spec := w.spec(1)
	b.ResetTimer()
	for range b.N {
		check(b, w.device.Remove(spec.ID))
		check(b, w.device.Add(spec))
	}
}
