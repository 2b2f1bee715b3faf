package durable

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store"
)

const valueSize = 300

// newGroup starts a group on a new store and ends both with the test.
func newGroup(t testing.TB) *Group {
	t.Helper()
	s, err := store.Open(store.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroup(s, valueSize)
	ctx, cancel := context.WithCancel(context.Background())
	var tasks errgroup.Group
	tasks.Go(func() error { return g.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(tasks.Wait(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

func newEtcd(t testing.TB, clients int) *Etcd {
	t.Helper()
	e, err := StartEtcd(t.Context(), t.TempDir(), clients, valueSize)
	if errors.Is(err, ErrNoEtcd) {
		t.Skip("etcd is not installed (Debian: etcd-server)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestComparison shows that both sides do what is measured; the figures of so short a
// run mean nothing.
func TestComparison(t *testing.T) {
	g, e := newGroup(t), newEtcd(t, 4)
	var report strings.Builder
	c := Comparison{Clients: 4, Rounds: 1, Lasting: 100 * time.Millisecond, Out: &report}
	ratios, err := c.Compare(t.Context(), Side{"store", g.Write, OwnCPU}, Side{"etcd", e.Put, e.CPU})
	if err != nil {
		t.Fatal(err)
	}
	if ratios.Rate <= 0 || ratios.P99 <= 0 || ratios.CPU <= 0 || !strings.Contains(report.String(), "store / etcd") {
		t.Fatalf("%+v\n%s", ratios, report.String())
	}
	entries := 0
	_, err = g.store.Recover(func(b crdt.Batch) error {
		entries += len(b.Changes)
		return nil
	})
	if err != nil || uint64(entries) != g.last || entries == 0 {
		t.Fatalf("%d entries in the log, %d written, %v", entries, g.last, err)
	}
}

func TestMeasureReportsAFailedWrite(t *testing.T) {
	broken := errors.New("broken")
	_, err := Measure(t.Context(), 2, time.Minute, func(context.Context, int) error { return broken })
	if !errors.Is(err, broken) {
		t.Fatalf("%v", err)
	}
}

func TestSummary(t *testing.T) {
	var latencies []time.Duration
	for i := range 100 {
		latencies = append(latencies, time.Duration(100-i)*time.Millisecond)
	}
	r := summarize([][]time.Duration{latencies[:30], latencies[30:]}, 2*time.Second)
	if r.Writes != 100 || r.PerSecond() != 50 || r.P50 != 51*time.Millisecond || r.P99 != 100*time.Millisecond {
		t.Fatalf("%+v", r)
	}
}

// BenchmarkBesideEtcd is the comparison, with 64 clients: run it with -benchtime 1x.
func BenchmarkBesideEtcd(b *testing.B) {
	const clients = 64
	g, e := newGroup(b), newEtcd(b, clients)
	for b.Loop() {
		c := Comparison{Clients: clients, Rounds: 5, Lasting: 3 * time.Second, Out: b.Output()}
		ratios, err := c.Compare(b.Context(), Side{"store", g.Write, OwnCPU}, Side{"etcd", e.Put, e.CPU})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(ratios.Rate, "x-writes/s")
		b.ReportMetric(ratios.P99, "x-p99")
	}
}
