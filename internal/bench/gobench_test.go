package main

import (
	"testing"

	"starling.dev/starling/internal/bench/report"
)

func TestParseReadsEveryFigure(t *testing.T) {
	out := "goos: linux\nBenchmarkSpread/LAN/peers=10-2   \t 5\t 123 ns/op\t 1.25 copies/peer\nPASS\nok  x 1s\n"
	got := parse([]byte(out))
	want := []report.Row{{What: "Spread/LAN/peers=10", Measured: "123 ns/op"}, {What: "Spread/LAN/peers=10", Measured: "1.25 copies/peer"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAnUnknownPartIsRefused(t *testing.T) {
	if err := run(t.Context(), "0", []string{"nonsense"}); err == nil {
		t.Error("an unknown part was accepted")
	}
}
