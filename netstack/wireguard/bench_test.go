package wireguard

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
)

// BenchmarkStream measures one TCP stream between two machines, directly and through a
// tunnel of devices in this process. Both take turns, for several rounds; a figure is a
// median. Both ends, and both devices, share the computer's cores.
func BenchmarkStream(b *testing.B) {
	const rounds = 9
	x, y := space(b, "a"), space(b, "b")
	connect(b, x, "lan", "10.0.0.1/24", y, "lan", "10.0.0.2/24")
	m, o := newMachine(b, 1, x, "10.0.0.1"), newMachine(b, 2, y, "10.0.0.2")
	m.meet(o)
	o.meet(m)
	until(b, "a reaches b", func() bool { return m.reaches(o) })
	ways := []struct {
		name, address string
		rates, cpu    []float64
	}{{name: "direct", address: o.address.String()}, {name: "tunnel", address: o.inside.String()}}
	port := o.sink()
	for range rounds {
		for i := range ways {
			rate, cpu := m.stream(net.JoinHostPort(ways[i].address, fmt.Sprint(port)))
			ways[i].rates, ways[i].cpu = append(ways[i].rates, rate), append(ways[i].cpu, cpu)
		}
	}
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(w.rates), "Gbit/s")
			b.ReportMetric(median(w.cpu), "Gbit/cpu-s")
			if w.name != "direct" {
				b.ReportMetric(median(w.rates)/median(ways[0].rates), "x-direct")
				b.ReportMetric(median(w.cpu)/median(ways[0].cpu), "x-direct-cpu")
			}
		})
	}
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// within runs f in the machine's namespace.
func (m *machine) within(f func() error) {
	m.t.Helper()
	fd, err := linux.OpenNamespace(m.path)
	check(m.t, err)
	defer unix.Close(fd)
	check(m.t, linux.Within(fd, f))
}

// sink takes all that is sent and answers with its length.
func (m *machine) sink() (port int) {
	var l net.Listener
	m.within(func() (err error) {
		l, err = net.Listen("tcp", ":0")
		return err
	})
	m.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				n, _ := io.Copy(io.Discard, conn)
				fmt.Fprint(conn, n)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// stream sends for a while, waits until all has arrived, and returns the rate and what a
// second of processor time carried.
func (m *machine) stream(to string) (rate, cpu float64) {
	const while = 400 * time.Millisecond
	var conn net.Conn
	m.within(func() (err error) {
		conn, err = net.DialTimeout("tcp", to, patience)
		return err
	})
	defer conn.Close()
	chunk := make([]byte, 1<<20)
	sent, start, busy := 0, time.Now(), processorTime(m.t)
	for time.Since(start) < while {
		_, err := conn.Write(chunk)
		check(m.t, err)
		sent += len(chunk)
	}
	check(m.t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	check(m.t, err)
	if string(got) != fmt.Sprint(sent) {
		m.t.Fatalf("%s bytes of %d arrived", got, sent)
	}
	gigabits := float64(sent) * 8 / 1e9
	return gigabits / time.Since(start).Seconds(), gigabits / (processorTime(m.t) - busy).Seconds()
}

func processorTime(t testing.TB) time.Duration {
	var u unix.Rusage
	check(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
