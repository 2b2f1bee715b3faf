package main

import (
	"testing"

	"starling.dev/starling/internal/bench/report"
)

func TestTargetsStandBesideTheirFigures(t *testing.T) {
	rows := aimed([]report.Row{
		{What: "Attach", Measured: "7.5 ms-median"}, {What: "Attach", Measured: "90 ms-p99"},
		{What: "Attach100", Measured: "7.5 ms-median"}, {What: "Translate/from4/udp/64", Measured: "8 Mpps/core"},
	}, networkTargets)
	want := []report.Row{
		{What: "Attach", Measured: "7.5 ms-median", Target: "<= 15", Ratio: "0.50"}, {What: "Attach", Measured: "90 ms-p99"},
		{What: "Attach100", Measured: "7.5 ms-median"}, {What: "Translate/from4/udp/64", Measured: "8 Mpps/core", Target: ">= 4", Ratio: "2.00"},
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("%+v, want %+v", rows[i], want[i])
		}
	}
}
