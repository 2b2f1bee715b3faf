package rig

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"starling.dev/starling/peer"
)

// A filled directory is one in which every pod is at rest, seen from another machine.
func TestFill(t *testing.T) {
	dir := t.TempDir()
	logger := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	filled, err := Fill(ctx, dir, 2, 100, logger)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(Config{Dir: dir, Machine: 2, Machines: 2, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	r.Loop.Post(ctx, peer.Membership{Machine: MachineID("m1"), Alive: true})
	ready, verdicts := 0, map[string]int{}
	if err := r.Loop.Query(context.Background(), func(c *peer.Core) {
		for _, s := range c.List("Pod") {
			verdicts[string(s.Eval.Verdict)]++
			if s.Object.Status()["status.ready"] == "true" {
				ready++
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if ready != 100 || filled.Entries < 500 {
		t.Errorf("%d of 100 pods are ready, after %d entries", ready, filled.Entries)
	}
	if verdicts["converged"] != 100 {
		t.Errorf("pods are not at rest: %v", verdicts)
	}
}
