package rig

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Whoever was told that something is written finds it, though reads of what has not
// changed are answered from copies; and others never find what is older than they found.
func TestReadYourWrites(t *testing.T) {
	r, err := Open(Config{Dir: t.TempDir(), Machine: 1, Machines: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Start()
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(t.TempDir(), "s")
	if err := r.Serve(socket); err != nil {
		t.Fatal(err)
	}
	key := &apiv1.Key{Kind: "Allow", Namespace: "default", Name: "web"}
	written := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(written)
		c := client.New(socket)
		defer c.Close()
		for n := range 100 {
			value := api.Str(fmt.Sprintf("v%06d", n))
			if _, err := c.Apply(t.Context(), &apiv1.ApplyRequest{Author: "alice", Edits: []*apiv1.Edit{{
				Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: key, Fields: map[string]string{"spec.to.labels.app": value},
			}}}); err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if got := read(t, c, key); got != value {
					t.Errorf("wrote %s, read %s", value, got)
				}
			}
		}
	})
	for range 4 {
		all.Go(func() {
			c := client.New(socket)
			defer c.Close()
			for last := ""; ; {
				got := read(t, c, key)
				if got < last {
					t.Errorf("read %s after %s", got, last)
				}
				last = got
				select {
				case <-written:
					return
				default:
				}
			}
		})
	}
	all.Wait()
}

// read returns the label that the object names, "" while there is none.
func read(t *testing.T, c *client.Client, key *apiv1.Key) string {
	res, err := c.Get(t.Context(), &apiv1.GetRequest{Kind: key.GetKind(), Namespace: key.GetNamespace(), Name: key.GetName()})
	if client.Is(err, api.NotFound) {
		return ""
	}
	if err != nil {
		t.Error(err)
		return ""
	}
	return res.GetObjects()[0].GetFields()["spec.to.labels.app"]
}
