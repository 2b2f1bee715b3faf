package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// checkpointOf writes a checkpoint of a core.
func checkpointOf(t *testing.T, c *Core) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := c.Checkpoint().Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// restPods brings up a cluster of two machines with pods on both, of which one was deleted.
func restPods(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, 2)
	c.run(time.Second)
	var edits []Edit
	for i := range 12 {
		edits = append(edits, pod(t, fmt.Sprint("p", i), fmt.Sprintf("  containers:\n    app:\n      image: localhost/a:1\n      resources: {cpu: %dm, memory: 64Mi}\n      ports:\n        web: 80\n      hostPorts: {web: %d}\n", 10+i, 8000+i)))
	}
	c.write(1, edits...)
	c.write(1, Edit{Kind: EditDelete, Key: edits[3].Key})
	for i := range edits {
		if c.status(1, fmt.Sprint("p", i))["status.ready"] != "true" && i != 3 {
			t.Fatalf("pod %d is not ready: %v", i, c.status(1, fmt.Sprint("p", i)))
		}
	}
	return c
}

// A start from a checkpoint knows of the pods elsewhere, without a look at them, what it
// knows of them after it: where they are, what they reserve, which are over.
func TestStartBelievesNotes(t *testing.T) {
	c := restPods(t)
	live := c.cores[0].core
	core := startFrom(t, c, checkpointOf(t, live), nil)
	if len(core.engine.unseen) == 0 {
		t.Fatal("every object was looked at before the start was over")
	}
	for _, t2 := range core.engine.objects {
		said, is, was := core.engine.noteOf(t2), core.engine.facts(t2), live.engine.noteOf(live.engine.objects[t2.ref])
		if !said.equal(&is) || !said.equal(&was) {
			t.Errorf("%s: the note says %+v, but it is %+v, and was %+v", t2.ref, said, is, was)
		}
	}
	for _, m := range []string{"m1", "m2"} {
		if got, want := core.engine.reserved(m, crdt.Ref{}), live.engine.reserved(m, crdt.Ref{}); !got.Equal(want) || len(want.Ports) == 0 {
			t.Errorf("on %s %+v is reserved, not %+v", m, got, want)
		}
	}
	for i := 0; len(core.engine.unseen) > 0; i++ {
		if core.Ready(); i > 100 {
			t.Fatalf("%d objects are never looked at", len(core.engine.unseen))
		}
		core.Advance()
	}
}

// A note that is wrong, since another version of the program wrote it, say, is found out
// when the object is looked at.
func TestWrongNotesAreCorrected(t *testing.T) {
	c := restPods(t)
	live := c.cores[0].core
	want := map[crdt.Ref]note{}
	for ref, o := range live.engine.objects {
		want[ref] = live.engine.noteOf(o)
		if ref.Kind == "Pod" && o.placed == "m2" {
			o.placed, o.reserved, o.parent, o.gone = "m7", lifecycle.Reservation{CPU: 7}, "Pod/default/p0", !o.gone
		}
	}
	core := startFrom(t, c, checkpointOf(t, live), nil)
	if core.engine.reserved("m7", crdt.Ref{}).CPU == 0 {
		t.Error("no note was believed")
	}
	for range 3 {
		core.Ready()
		core.Advance()
	}
	for ref, o := range core.engine.objects {
		w, is := want[ref], core.engine.noteOf(o)
		if !is.equal(&w) {
			t.Errorf("%s: %+v, not %+v", ref, is, w)
		}
	}
	if r := core.engine.reserved("m7", crdt.Ref{}); r.CPU != 0 {
		t.Errorf("%+v is reserved where nothing is", r)
	}
}

// rotting is a file whose objects can't be read any more from some time on.
type rotting struct {
	memory
	rotten *bool
}

func (r rotting) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.memory.ReadAt(b, at)
	if *r.rotten && n > 0 {
		b[n-1] ^= 1
	}
	return n, err
}

// noDisk takes everything and gives nothing.
type noDisk struct{}

func (noDisk) Commit(crdt.Commit) error                    { return nil }
func (noDisk) ReadRange(crdt.Range, int) ([][]byte, error) { return nil, nil }
func (noDisk) Send(crdt.MachineID, []byte) error           { return nil }

// A checkpoint that rots while objects are read from it has the log folded anew: nobody is
// told what is not so.
func TestCheckpointRots(t *testing.T) {
	c := restPods(t)
	file, rotten, opened := checkpointOf(t, c.cores[0].core), false, 0
	cfg := c.cores[0].core.cfg
	cfg.Warm = 1
	synctest.Test(t, func(t *testing.T) {
		loop, err := NewLoop(LoopConfig{
			Transport: noDisk{}, Host: c.cores[0].host, Verifier: NewVerifier(crdt.VerifyEd25519), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Open: func(context.Context) (*Core, Disk, error) {
				opened++
				rec := recoveryOf(c.cores[0])
				if opened == 1 {
					rec.Checkpoint = func() (crdt.File, error) { return rotting{memory{bytes.NewReader(file)}, &rotten}, nil }
				}
				core, err := New(cfg, rec, c.now)
				return core, noDisk{}, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = loop.Run(ctx) }()
		defer cancel()
		list := func() (names []string, err error) {
			err = loop.Query(ctx, func(core *Core) {
				for _, s := range core.List("Pod") {
					names = append(names, s.Object.Key.Name)
				}
			})
			return names, err
		}
		want, err := list()
		if err != nil || len(want) != 11 {
			t.Fatalf("%v, %v", want, err)
		}
		rotten = true
		if got, err := list(); err == nil {
			t.Errorf("from a rotten checkpoint %v are read", got)
		}
		synctest.Wait()
		if got, err := list(); err != nil || len(got) != len(want) || opened != 2 {
			t.Errorf("after %d starts there are %v, %v", opened, got, err)
		}
	})
}
