package server

import (
	"testing"
	"time"

	"starling.dev/starling/oci"
)

func TestRates(t *testing.T) {
	use := func(pod string, cpu time.Duration) oci.Usage {
		return oci.Usage{PodID: pod, Namespace: "default", Name: pod, Container: "app", CPU: cpu, Memory: 7}
	}
	got := rates(
		[]oci.Usage{use("busy", time.Minute), use("restarted", time.Minute), use("ended", 0)},
		[]oci.Usage{use("busy", time.Minute+time.Second), use("restarted", time.Second), use("new", time.Second)},
		2*time.Second)
	if len(got) != 1 || got[0].GetKey().GetName() != "busy" || got[0].GetCpuMilli() != 500 || got[0].GetMemory() != 7 {
		t.Errorf("rates returned %v", got)
	}
}
