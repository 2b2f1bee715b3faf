package clat_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/clat"
)

// way is one way for a stream to the server.
type way struct {
	name       string
	w          *world
	pod        int
	address    string
	rates, cpu []float64
}

// BenchmarkEgress measures one TCP stream from a pod to the server, in each way that
// there is: plain routing, the kernel's masquerading, from an IPv6 program (nat64) and an
// IPv4 program (clat) by the fast path and by the TUN links, and NAT64 by tayga. The ways
// take turns, for several rounds; a figure is a median. Beside the rate stands what a
// second of processor time carries, both ends of the stream and all between included, tayga's
// process too: that depends less on what else the machine does.
func BenchmarkEgress(b *testing.B) {
	const rounds = 9
	fast, slow := newWorld(b, 2, 1500), newWorldWith(b, 1, 1500, clat.Config{TUNOnly: true})
	fast.routePlainly(1)
	ways := []*way{
		{name: "plain", w: fast, pod: 1, address: "198.51.100.3"}, {name: "masquerade", w: fast, pod: 1, address: "198.51.100.4"},
		{name: "nat64", w: fast, address: serverIP6}, {name: "clat", w: fast, address: serverIP},
		{name: "tun_nat64", w: slow, address: serverIP6}, {name: "tun_clat", w: slow, address: serverIP},
		{name: "tayga", w: fast, pod: 1, address: fast.startTayga()},
	}
	port := map[*world]int{fast: fast.sink(), slow: slow.sink()}
	for range rounds {
		for _, y := range ways {
			if y.address == "" {
				continue
			}
			rate, cpu := y.w.stream(b, y.pod, net.JoinHostPort(y.address, fmt.Sprint(port[y.w])))
			y.rates, y.cpu = append(y.rates, rate), append(y.cpu, cpu)
		}
	}
	for _, y := range ways {
		b.Run(y.name, func(b *testing.B) { y.report(b, ways) })
	}
	if counts, hook, err := fast.device.Fast(); err != nil || counts.In4 == 0 || counts.In6 == 0 {
		b.Fatalf("the fast path (%s) was not taken: %+v, %v", hook, counts, err)
	}
}

func (y *way) report(b *testing.B, ways []*way) {
	if y.address == "" {
		b.Skip("tayga is not installed")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(y.rates), "Gbit/s")
	b.ReportMetric(median(y.cpu), "Gbit/cpu-s")
	for _, other := range ways {
		if other == y || other.address == "" || !slices.Contains([]string{"plain", "masquerade", "tayga"}, other.name) {
			continue
		}
		b.ReportMetric(median(y.rates)/median(other.rates), "x-"+other.name)
		b.ReportMetric(median(y.cpu)/median(other.cpu), "x-"+other.name+"-cpu")
	}
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// sink takes all that is sent and answers with its length.
func (w *world) sink() (port int) {
	return w.server.serveTCP(func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		fmt.Fprint(c, n)
	})
}

// stream sends for a while, waits until the server has it all, and returns the rate and
// what a second of processor time carried.
func (w *world) stream(b *testing.B, pod int, to string) (rate, cpu float64) {
	const while = 300 * time.Millisecond
	conn := w.pods[pod].dial("tcp", to, nil)
	check(b, conn.SetDeadline(time.Now().Add(time.Minute)))
	chunk := blob(1 << 20)
	sent, start, busy := 0, time.Now(), w.processorTime(b)
	for time.Since(start) < while {
		_, err := conn.Write(chunk)
		check(b, err)
		sent += len(chunk)
	}
	check(b, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	check(b, err)
	if want := fmt.Sprint(sent); string(got) != want {
		b.Fatalf("the server got %s bytes of %s", got, want)
	}
	gigabits := float64(sent) * 8 / 1e9
	return gigabits / time.Since(start).Seconds(), gigabits / (w.processorTime(b) - busy).Seconds()
}

// processorTime is what this process and tayga have used.
func (w *world) processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if w.tayga == nil {
		return used
	}
	// The first field is the nanoseconds that the process, which has one thread, has run for.
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", w.tayga.Pid))
	check(b, err)
	var ran int64
	_, err = fmt.Sscan(string(raw), &ran)
	check(b, err)
	return used + time.Duration(ran)
}

// routePlainly gives a pod an IPv4 address of the usual kind in place of its CLAT, with
// which it reaches the server's second address unchanged and its third masqueraded.
func (w *world) routePlainly(pod int) {
	link := fmt.Sprintf("slp%d", pod+1)
	check(w.t, w.device.Remove(w.spec(pod+1).ID))
	w.pods[pod].ip("addr add 10.9.0.1/32 dev eth0",
		"route add 198.51.100.3/32 via inet6 fe80::1 dev eth0 src 10.9.0.1",
		"route add 198.51.100.4/32 via inet6 fe80::1 dev eth0 src 10.9.0.1")
	w.machine.ip("route add 10.9.0.1/32 dev " + link)
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
		w.tayga = cmd.Process
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
