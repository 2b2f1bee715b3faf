package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"starling.dev/starling/internal/bench/report"
)

// networkRuns are the measurements of the network. Those that measure one thing after the
// other take a number of samples; those that take turns with others do so within one run.
var networkRuns = []struct{ packages, pattern, lasting string }{
	{"./netstack/linux", "^Benchmark(Attach|Attach100|Adopt|Routes)$", "20x"},
	{"./netstack/linux", "^BenchmarkFirstPacketLan$", "300x"},
	{"./netstack/linux/services", ".", "1x"},
	{"./netstack/clat", "^BenchmarkEgress$", "1x"},
	{"./netstack/clat", "^BenchmarkAdd$", "20x"},
	{"./netstack/wireguard", ".", "1x"},
}

// network runs all of them; one that fails does not keep the others from being run.
func network(ctx context.Context) (rows []report.Row, err error) {
	for _, r := range networkRuns {
		more, failed := goBench(r.packages, r.pattern, r.lasting)(ctx)
		rows, err = append(rows, more...), errors.Join(err, failed)
	}
	return aimed(rows, networkTargets), err
}

// translation measures the translator.
func translation(ctx context.Context) ([]report.Row, error) {
	rows, err := goBench("./netstack/xlat", ".", "200ms")(ctx)
	return aimed(rows, networkTargets), err
}

// target is what one figure of a benchmark, or of several whose names begin alike, is held
// against.
type target struct {
	benchmark, unit string
	atMost          bool
	value           float64
}

// networkTargets are the project's. Egress is held to ratios of processor time: those of rates say
// little on a computer that does something else as well.
var networkTargets = []target{
	{"Attach", "ms-median", true, 15},
	{"Attach100", "ns/op", true, 1e9},
	{"FirstPacketLan", "ms-median", true, 0.2},
	{"AddService/of=30000", "add-ms", true, 5},
	{"Connect", "ratio", true, 1.3},
	{"Egress/nat64", "x-masquerade-cpu", false, 0.9},
	{"Egress/clat", "x-masquerade-cpu", false, 0.9},
	{"Egress/tun_nat64", "x-tayga-cpu", false, 6},
	{"Egress/tun_clat", "x-tayga-cpu", false, 6},
	{"Egress/tun_nat64", "x-plain-cpu", false, 0.3},
	{"Egress/tun_clat", "x-plain-cpu", false, 0.3},
	{"Translate/", "Mpps/core", false, 4},
	{"Translate/", "allocs/op", true, 0},
}

// aimed puts the targets beside the figures.
func aimed(rows []report.Row, targets []target) []report.Row {
	for i := range rows {
		for _, t := range targets {
			var value float64
			var unit string
			if _, err := fmt.Sscan(rows[i].Measured, &value, &unit); err != nil || unit != t.unit || !t.concerns(rows[i].What) {
				continue
			}
			sign := ">="
			if t.atMost {
				sign = "<="
			}
			rows[i].Target = fmt.Sprintf("%s %g", sign, t.value)
			rows[i].Ratio = report.Of(value, t.value)
		}
	}
	return rows
}

func (t target) concerns(benchmark string) bool {
	if strings.HasSuffix(t.benchmark, "/") {
		return strings.HasPrefix(benchmark, t.benchmark)
	}
	return benchmark == t.benchmark
}
