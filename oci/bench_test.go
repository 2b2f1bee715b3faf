package oci

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkServiceGap measures how long a server does not accept connections while
// its container is replaced: with the successor created first, and as stopping first
// and starting afterwards would do it.
func BenchmarkServiceGap(b *testing.B) {
	for _, way := range []string{"successor-first", "stop-first"} {
		b.Run(way, func(b *testing.B) {
			f := newFixture(b)
			f.ctx = context.Background()
			f.pod.NetNS = netns(b, "gap")
			f.ensure(server())
			f.await("server", "listening")
			var gap, took time.Duration
			for n := range b.N {
				g, d := f.replace(way == "stop-first", n)
				gap += g
				took += d
			}
			b.ReportMetric(float64(gap.Milliseconds())/float64(b.N), "gap-ms/op")
			b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "ensure-ms/op")
		})
	}
}

// replace changes the server's spec and measures from outside of the container.
func (f *fixture) replace(stopFirst bool, n int) (gap, took time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	gaps := make(chan time.Duration, 1)
	back := make(chan struct{}, 1)
	go func() { gaps <- longestGap(ctx, f.pod.NetNS, back) }()
	<-back
	began := time.Now()
	if stopFirst {
		f.ensure() // no container is listed: the old one is stopped and removed
	}
	spec := server()
	spec.Env = map[string]string{"GREETING": fmt.Sprint(n)}
	f.ensure(spec)
	took = time.Since(began)
	// The gap ends when a connection succeeds that was begun after all this.
	<-back
	<-back
	cancel()
	return <-gaps, took
}

// longestGap connects again and again, and returns the longest time between two
// connections that succeeded. Each success is announced if someone waits for it.
func longestGap(ctx context.Context, ns string, back chan<- struct{}) time.Duration {
	var longest time.Duration
	last := time.Time{}
	for ctx.Err() == nil {
		conn, err := DialPod(ctx, ns, 8080)
		if err != nil {
			continue
		}
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		now := time.Now()
		if !last.IsZero() {
			longest = max(longest, now.Sub(last))
		}
		last = now
		select {
		case back <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return longest
}

// BenchmarkStart measures from a spec to a running container, beside containerd's own
// command-line client running the same image detached.
func BenchmarkStart(b *testing.B) {
	b.Run("ensure", func(b *testing.B) {
		f := newFixture(b)
		f.ctx = context.Background()
		for n := range b.N {
			f.pod.ID = fmt.Sprintf("%016x", n+1)
			f.ensure(app())
			b.StopTimer()
			f.removeAll()
			b.StartTimer()
		}
	})
	b.Run("ctr-run", func(b *testing.B) {
		f := newFixture(b)
		for n := range b.N {
			id := fmt.Sprint("ctr-", n)
			ctr := func(args ...string) {
				args = append([]string{"--address", f.cfg.Socket, "--namespace", f.cfg.Namespace}, args...)
				if out, err := exec.Command("ctr", args...).CombinedOutput(); err != nil {
					b.Fatalf("ctr %v: %v\n%s", args, err, out)
				}
			}
			ctr("run", "--detach", "localhost/probe:1", id)
			b.StopTimer()
			ctr("task", "delete", "--force", id)
			ctr("container", "delete", id)
			b.StartTimer()
		}
	})
	b.Run("adopt", func(b *testing.B) {
		f := newFixture(b)
		f.ctx = context.Background()
		f.ensure(app())
		for b.Loop() {
			f.ensure(app())
		}
	})
}

func (f *fixture) removeAll() {
	f.t.Helper()
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		f.t.Fatal(err)
	}
}
