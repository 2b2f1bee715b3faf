package rig

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// BenchmarkApply has 64 clients write new objects of 300 bytes through the API.
func BenchmarkApply(b *testing.B) {
	r, err := Open(Config{Dir: b.TempDir(), Machine: 1, Machines: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	r.Start()
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	socket := filepath.Join(b.TempDir(), "s")
	if err := r.Serve(socket); err != nil {
		b.Fatal(err)
	}
	var names atomic.Uint64
	value := api.Str(strings.Repeat("v", 300))
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		c := client.New(socket)
		defer c.Close()
		for pb.Next() {
			if _, err := c.Apply(b.Context(), &apiv1.ApplyRequest{Author: "bench", Edits: []*apiv1.Edit{{
				Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: &apiv1.Key{Kind: "Allow", Namespace: "default", Name: fmt.Sprintf("a%d", names.Add(1))},
				Fields: map[string]string{"spec.to.labels.app": value},
			}}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
