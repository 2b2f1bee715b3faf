package sim

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestOne(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	cfg := Config{Seed: seed, Peers: 5, Duration: 40 * time.Second}
	if os.Getenv("TRACE") != "" {
		cfg.Trace = os.Stdout
	}
	begin := time.Now()
	r, err := Run(cfg)
	t.Logf("%+v", r)
	t.Logf("%v, %.0f events/s", time.Since(begin), float64(r.Figures.Events)/time.Since(begin).Seconds())
	if err != nil {
		if v, ok := err.(*Violation); ok {
			for _, l := range v.Trace {
				t.Log(l)
			}
		}
		t.Fatal(err)
	}
}
