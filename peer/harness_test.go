package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/loops"
)

// cluster drives a few cores by hand: messages arrive at once, actions end at once.
type cluster struct {
	t     testing.TB
	now   time.Time
	cores []*node
	cut   map[[2]int]bool
	// retention is of machines that are started from now on.
	retention Retention
}

type node struct {
	i      int
	core   *Core
	host   *fakeHost
	batch  []crdt.Batch
	local  map[string][]byte
	high   crdt.HighWater
	key    ed25519.PrivateKey
	answer []Answer
	wake   time.Time
	// rebuilt is how often the core asked to be built anew.
	rebuilt int
	reads   int // of the log, by the core
	unsound bool
}

func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), cut: map[[2]int]bool{}}
	root, first := testKey("root"), testKey("m1")
	random := bytes.NewReader(bytes.Repeat([]byte{7}, 4096))
	log, err := identity.Begin(identity.BeginConfig{Name: "test", MachineName: "m1", RootKey: root, MachineKey: first, Clock: identity.ClockAt(c.now)}, random)
	if err != nil {
		t.Fatal(err)
	}
	for i := 2; i <= n; i++ {
		name := fmt.Sprintf("m%d", i)
		rec, err := log.Sign(root, identity.ClockAt(c.now), identity.Admit{PublicKey: testKey(name).Public().(ed25519.PublicKey), Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Add(rec.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= n; i++ {
		nd := &node{i: i, key: testKey(fmt.Sprintf("m%d", i)), local: map[string][]byte{}, host: newFakeHost(fmt.Sprintf("m%d", i))}
		c.cores = append(c.cores, nd)
		for k, r := range log.Since(0) {
			nd.local[AuthKey(k)] = r
		}
		c.boot(nd, log.Since(0), log.Genesis())
	}
	c.connect()
	return c
}

func (c *cluster) boot(n *node, records [][]byte, g identity.Genesis) {
	c.t.Helper()
	trust, err := identity.OpenLog(g, records)
	if err != nil {
		c.t.Fatal(err)
	}
	kinds, err := Kinds()
	if err != nil {
		c.t.Fatal(err)
	}
	pub := n.key.Public().(ed25519.PublicKey)
	n.core, err = New(Config{
		Self: Machine{ID: identity.IDOf(pub), Name: fmt.Sprintf("m%d", n.i)}, PublicKey: pub, Sign: crdt.Ed25519Signer(n.key), Key: n.key,
		Trust: trust, Kinds: kinds, Seed: uint64(n.i)<<32 + uint64(len(n.batch)),
		HashAt: n.hashAt, Stored: n.stored, Retention: c.retention,
	}, Recovery{
		Batches: func(yield func(crdt.Batch) error) (crdt.HighWater, error) {
			for _, b := range n.batch {
				if err := yield(b); err != nil {
					return n.high, err
				}
			}
			return n.high, nil
		},
		Local: n.local, AuthRecords: len(records), Sound: func() bool { return !n.unsound },
	}, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) connect() {
	for _, a := range c.cores {
		for _, b := range c.cores {
			up := a != b && !c.cut[[2]int{a.i, b.i}]
			a.core.Step(c.now, Membership{Machine: b.core.self.ID, Alive: up || a == b})
			a.core.Step(c.now, Connection{Machine: b.core.self.ID, Up: up})
		}
	}
}

// turn carries one Ready of a node out, and reports whether anything came of it.
func (c *cluster) turn(n *node) bool {
	r := n.core.Ready()
	n.core.Advance()
	n.wake = r.Wake
	n.batch = append(n.batch, r.Commit.Batches...)
	n.compact(r.Commit.Compacted)
	for _, w := range r.Commit.Local {
		if w.Value == nil {
			delete(n.local, w.Key)
		} else {
			n.local[w.Key] = w.Value
		}
	}
	if !r.Commit.HighWater.Actor.IsZero() {
		n.high = r.Commit.HighWater
	}
	n.answer = append(n.answer, r.Answers...)
	for _, e := range append(r.Relay, r.Send...) {
		c.deliver(n, e)
	}
	for _, s := range r.Serve {
		for _, rg := range s.Ranges {
			for _, b := range n.batch {
				if b.Actor == rg.Actor && b.Last() >= rg.From && b.First <= rg.To {
					c.deliver(n, Envelope{s.To, Push{Batches: [][]byte{b.Encode()}, Fresh: s.Fresh, Last: true}})
				}
			}
		}
	}
	for _, a := range r.Start {
		done := ActionDone{Action: a.ID}
		if a.Undo {
			done.Err = a.Step.Undo(context.Background(), n.host, a.Inputs)
		} else {
			done.Outputs, done.Err = a.Step.Do(context.Background(), n.host, a.Inputs)
		}
		n.core.Step(c.now, done)
	}
	if r.Rebuild {
		n.rebuilt++
		c.restart(n.i)
		return true
	}
	return !r.Commit.Empty() || len(r.Send)+len(r.Relay)+len(r.Start)+len(r.Answers)+len(r.Serve) > 0
}

func (c *cluster) deliver(from *node, e Envelope) {
	for _, to := range c.cores {
		if to.core.self.ID != e.To || c.cut[[2]int{from.i, to.i}] {
			continue
		}
		m, err := DecodeMessage(EncodeMessage(e.Message))
		if err != nil {
			c.t.Fatalf("decode %T: %v", e.Message, err)
		}
		to.core.Step(c.now, Received{From: from.core.self.ID, Message: m})
	}
}

// run lets virtual time pass.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	for end := c.now.Add(d); c.now.Before(end); c.now = c.now.Add(100 * time.Millisecond) {
		for i := 0; ; i++ {
			busy := false
			for _, n := range c.cores {
				n.core.Step(c.now, Tick{})
				busy = c.turn(n) || busy
			}
			if !busy {
				break
			}
			if i > 1000 {
				c.t.Fatal("the cluster does not come to rest")
			}
		}
	}
}

func (c *cluster) write(i int, edits ...Edit) Answer {
	c.t.Helper()
	n := c.cores[i-1]
	n.answer = nil
	n.core.Step(c.now, Write{Request: 1, Author: "user:alice", Edits: edits})
	c.run(4 * time.Second)
	if len(n.answer) != 1 {
		c.t.Fatalf("%d answers, want one", len(n.answer))
	}
	return n.answer[0]
}

func (c *cluster) status(i int, name string) api.Fields {
	o, ok := (&view{c: c.cores[i-1].core}).Object(api.Key{Kind: "Pod", Namespace: "default", Name: name})
	if !ok {
		return nil
	}
	return o.Status()
}

func pod(t testing.TB, name, spec string) Edit {
	t.Helper()
	specs, err := api.ParseYAML("test", fmt.Appendf(nil, "kind: Pod\nname: %s\nspec:\n%s", name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields}
}

// fakeHost does everything at once and remembers it.
type fakeHost struct {
	name    string
	pods    map[string]int // pod ID -> generation of its containers
	nets    map[string]bool
	starts  int
	routes  loops.RoutePlan
	failing error
	foreign loops.Foreign
}

func newFakeHost(name string) *fakeHost {
	return &fakeHost{name: name, pods: map[string]int{}, nets: map[string]bool{}}
}

func (h *fakeHost) Images() loops.Images         { return h }
func (h *fakeHost) Containers() loops.Containers { return containers{h} }
func (h *fakeHost) Network() loops.Network       { return h }
func (h *fakeHost) Volumes() loops.Volumes       { return volumes{h} }
func (h *fakeHost) Facts() loops.Facts           { return h }

func (h *fakeHost) Ensure(_ context.Context, ref string) (string, error) {
	if ref == "localhost/missing:1" {
		return "", errors.New("image localhost/missing:1 is not on this machine")
	}
	return "sha256:" + ref, nil
}

func (h *fakeHost) Attach(_ context.Context, p loops.PodNetwork) (string, error) {
	h.nets[p.ID] = true
	return "/run/netns/" + p.ID, nil
}

func (h *fakeHost) Detach(_ context.Context, id string) error {
	delete(h.nets, id)
	return nil
}

func (h *fakeHost) Routes(_ context.Context, p loops.RoutePlan) error {
	h.routes = p
	return nil
}

func (h *fakeHost) Probe(context.Context) (loops.MachineFacts, error) {
	return loops.MachineFacts{CPU: 2000, Memory: 4 << 30, OS: "test", Kernel: "1", Architecture: "amd64", Version: "test", Level: 1, Address: "192.0.2." + h.name[1:]}, nil
}

func (h *fakeHost) RuntimeReady(context.Context) (string, error) { return "fake 1", nil }
func (h *fakeHost) ClusterPrefix() netip.Prefix                  { return netip.MustParsePrefix("fd00::/48") }
func (h *fakeHost) OwnPrefix() netip.Prefix {
	return netip.MustParsePrefix("fd00:0:0:" + h.name[1:] + "::/96")
}

type containers struct{ h *fakeHost }

func (c containers) Ensure(_ context.Context, p loops.PodSandbox, specs []loops.ContainerSpec) ([]loops.ContainerStatus, error) {
	if c.h.failing != nil {
		return nil, c.h.failing
	}
	c.h.starts++
	c.h.pods[p.ID]++
	var out []loops.ContainerStatus
	for _, s := range specs {
		out = append(out, loops.ContainerStatus{Name: s.Name, ID: s.Name, PID: uint32(c.h.pods[p.ID])})
	}
	return out, nil
}

func (c containers) Remove(_ context.Context, id string) error {
	delete(c.h.pods, id)
	return nil
}

type volumes struct{ h *fakeHost }

func (v volumes) Ensure(_ context.Context, id, name string) (string, error) {
	return "/volumes/" + id + "/" + name, nil
}
func (v volumes) Release(context.Context, string) error { return nil }
