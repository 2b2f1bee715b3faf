package peer

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// memory is a file.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// recoveryOf is what the disk of a machine of a cluster holds.
func recoveryOf(n *node) Recovery {
	read := func(yield func(crdt.Batch) error) (crdt.HighWater, error) {
		for _, b := range n.batch {
			if err := yield(b); err != nil {
				return crdt.HighWater{}, err
			}
		}
		return crdt.HighWater{}, nil
	}
	since := func(heads crdt.Heads, yield func(crdt.Batch) error) (crdt.HighWater, error) {
		return read(func(b crdt.Batch) error {
			if b.Last() <= heads[b.Actor].Seq {
				return nil
			}
			return yield(b)
		})
	}
	local := map[string][]byte{}
	for key, value := range n.local {
		if strings.HasPrefix(key, compactPrefix) {
			local[key] = value
		}
	}
	return Recovery{Batches: read, Since: since, Local: local}
}

// startFrom starts the first machine of a cluster anew, from its log and a checkpoint.
func startFrom(t *testing.T, c *cluster, file []byte, since func(crdt.Heads, func(crdt.Batch) error) (crdt.HighWater, error)) *Core {
	t.Helper()
	rec := recoveryOf(c.cores[0])
	rec.Checkpoint = func() (crdt.File, error) { return memory{bytes.NewReader(file)}, nil }
	if since != nil {
		rec.Since = since
	}
	core, err := New(c.cores[0].core.cfg, rec, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// A start from a checkpoint and what came later gives the state, the heads, the objects and
// the latest events that folding the whole log gives; and so does one from a checkpoint
// that is no good, or that the log does not go on from.
func TestStartFromACheckpoint(t *testing.T) {
	c := newCluster(t, 1)
	c.run(time.Second)
	pod := func(name, image string) Edit {
		return Edit{Kind: EditApply, Key: api.Key{Kind: "Pod", Namespace: "default", Name: name}, Fields: api.Fields{"spec.containers.app.image": api.Str(image)}}
	}
	c.write(1, pod("a", "one"), pod("b", "one"))
	c.write(1, Edit{Kind: EditDelete, Key: pod("b", "").Key})
	live := c.cores[0].core
	var file bytes.Buffer
	if err := live.Checkpoint().Write(&file); err != nil {
		t.Fatal(err)
	}
	if live.CheckpointUseful() {
		t.Error("right after a checkpoint another one is said to be of use")
	}
	c.write(1, pod("a", "two"), pod("c", "one"))

	refuse := func(crdt.Heads, func(crdt.Batch) error) (crdt.HighWater, error) {
		return crdt.HighWater{}, errors.New("another log")
	}
	damaged := bytes.Clone(file.Bytes())
	damaged[len(damaged)/2] ^= 4
	for _, tt := range []struct {
		name    string
		file    []byte
		since   func(crdt.Heads, func(crdt.Batch) error) (crdt.HighWater, error)
		resumed bool
	}{
		{"a good one", file.Bytes(), nil, true},
		{"a damaged one", damaged, nil, false},
		{"half of one", file.Bytes()[:file.Len()/2], nil, false},
		{"one that the log does not go on from", file.Bytes(), refuse, false},
	} {
		core := startFrom(t, c, tt.file, tt.since)
		if core.Resumed() != tt.resumed {
			t.Errorf("%s: resumed %v", tt.name, core.Resumed())
		}
		if core.StateHash() != live.StateHash() || core.Digest().Heads != live.Digest().Heads {
			t.Errorf("%s: the state or the heads are others", tt.name)
		}
		if len(core.Keys()) != len(live.Keys()) || len(core.List("Pod")) != len(live.List("Pod")) {
			t.Errorf("%s: the objects are %v, not %v", tt.name, core.Keys(), live.Keys())
		}
		got, _ := core.Events(0)
		if want, _ := live.Events(0); len(got) == 0 || got[len(got)-1].HLC != want[len(want)-1].HLC {
			t.Errorf("%s: the latest of %d events is another", tt.name, len(got))
		}
	}
}
