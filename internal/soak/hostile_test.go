package soak

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/internal/bench/rig"
	"starling.dev/starling/peer"
)

// victims are the honest machines of a cluster, m1 and m2: real loops and stores that talk
// over real sockets. m3 is the hostile one.
type victims struct {
	rigs []*rig.Rig
	book map[crdt.MachineID]*gossip.Transport
}

func startVictims(t *testing.T) *victims {
	t.Helper()
	v := &victims{book: map[crdt.MachineID]*gossip.Transport{}}
	for n := 1; n <= 2; n++ {
		r, err := rig.Open(rig.Config{Dir: t.TempDir(), Machine: n, Machines: 3, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := r.Listen(v.book); err != nil {
			t.Fatal(err)
		}
		v.rigs = append(v.rigs, r)
	}
	for _, r := range v.rigs {
		r.Start()
	}
	for _, r := range v.rigs {
		r.Connect(v.book)
	}
	v.quiet(t, 2*time.Second) // some of what a machine does at its start is tried again after a while
	return v
}

func id(name string) crdt.MachineID { return rig.MachineID(name) }

func (v *victims) addr(name string) string {
	return fmt.Sprintf("127.0.0.1:%d", v.book[id(name)].Port())
}

// state is everything that both honest machines hold: entries, objects, and who belongs.
type state struct{ Heads, Objects, Auth crdt.ID }

// settled waits until both hold the same for a while, and returns it.
func (v *victims) settled(t *testing.T) state {
	t.Helper()
	return v.quiet(t, 300*time.Millisecond)
}

func (v *victims) quiet(t *testing.T, long time.Duration) (same state) {
	t.Helper()
	since := time.Now()
	until(t, "the honest machines hold the same", func() error {
		var now []state
		for _, r := range v.rigs {
			var s state
			if err := r.Loop.Query(t.Context(), func(c *peer.Core) {
				d := c.Digest()
				s = state{d.Heads, c.StateHash(), d.Auth}
			}); err != nil {
				return err
			}
			now = append(now, s)
		}
		if now[0] != now[1] || now[0] != same {
			same, since = now[0], time.Now()
			return fmt.Errorf("they hold %v and %v", now[0], now[1])
		}
		if time.Since(since) < long {
			return fmt.Errorf("they hold the same only since %v", since)
		}
		return nil
	})
	return same
}

// label is what an Allow says on a machine; "" if there is none.
func label(t *testing.T, r *rig.Rig, name string) (value string) {
	t.Helper()
	if err := r.Loop.Query(t.Context(), func(c *peer.Core) {
		if seen, ok := c.See(allowKey(name)); ok {
			value, _ = seen.Object.Field("spec.to.labels.app")
		}
	}); err != nil {
		t.Fatal(err)
	}
	return value
}

func allowKey(name string) api.Key {
	return api.Key{Kind: "Allow", Namespace: "default", Name: name}
}

// write has a person write something at an honest machine.
func (v *victims) write(t *testing.T, at int, name, value string) {
	t.Helper()
	a, err := v.rigs[at].Loop.Write(t.Context(), peer.Write{Author: "user:alice", Edits: []peer.Edit{{
		Kind: peer.EditApply, Key: allowKey(name), Fields: api.Fields{"spec.to.labels.app": api.Str(value)},
	}}})
	if err != nil || a.Err != nil {
		t.Fatal(err, a.Err)
	}
}

// stored are all batches that the honest machines hold.
func (v *victims) stored(t *testing.T) (all []crdt.Batch) {
	t.Helper()
	heads, err := v.rigs[0].Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, actor := range slices.SortedFunc(maps.Keys(heads), crdt.ActorID.Compare) {
		for from := uint64(1); from <= heads[actor].Seq; {
			batches, err := v.rigs[0].Store.Batches(actor, from, 1<<20)
			if err != nil || len(batches) == 0 {
				t.Fatal("the log is not whole", err)
			}
			all = append(all, batches...)
			from = batches[len(batches)-1].Last() + 1
		}
	}
	return all
}

// everybody trusts any key: a hostile machine does not care who it talks to.
type everybody struct{}

func (everybody) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	return identity.Machine{ID: identity.IDOf(pub), PublicKey: pub}, true
}

// hostile is a machine that says what it wants to.
type hostile struct {
	t       *testing.T
	key     ed25519.PrivateKey
	streams *gossip.Transport
	heard   chan peer.Message // answers to what it asked
}

// startHostile connects a machine with the streams of the honest ones.
func (v *victims) startHostile(t *testing.T, name string) *hostile {
	t.Helper()
	h := &hostile{t: t, key: rig.KeyOf(name), heard: make(chan peer.Message, 64)}
	var err error
	h.streams, err = gossip.NewTransport(gossip.TransportConfig{
		Key: h.key, Trust: everybody{}, Bind: v.anyPort(),
		Lookup: func(m crdt.MachineID) []string {
			if other, ok := v.book[m]; ok {
				return []string{fmt.Sprintf("127.0.0.1:%d", other.Port())}
			}
			return nil
		},
		Handler: h.hear, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.streams.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return h
}

// hear keeps what answers say; the rest of what honest machines tell is not of interest.
func (h *hostile) hear(_ crdt.MachineID, frame []byte) {
	m, err := peer.DecodeMessage(frame)
	if _, ok := m.(peer.AuthOffer); ok && err == nil {
		select {
		case h.heard <- m:
		default:
		}
	}
}

// tell sends frames to a machine and waits until it has looked at all of them: it answers a
// question that comes after them.
func (h *hostile) tell(to crdt.MachineID, messages ...peer.Message) {
	h.t.Helper()
	for len(h.heard) > 0 {
		<-h.heard
	}
	for _, m := range append(messages, peer.AuthOffer{Reply: true}) {
		if err := h.streams.Send(to, peer.EncodeMessage(m)); err != nil {
			h.t.Fatal(err)
		}
	}
	select {
	case <-h.heard:
	case <-time.After(time.Minute):
		h.t.Fatalf("%s does not answer", to)
	}
}

// push sends batches to both honest machines.
func (h *hostile) push(batches ...[]byte) {
	h.t.Helper()
	for _, name := range []string{"m1", "m2"} {
		h.tell(id(name), peer.Push{Batches: batches, Fresh: true})
	}
}

// turnedAway reports whether a key gets neither streams nor the API: the other side ends
// the connection before it says anything.
func turnedAway(t *testing.T, addr string, key ed25519.PrivateKey) bool {
	t.Helper()
	for _, protocol := range []string{identity.ALPNFrames, identity.ALPNAPI} {
		config, err := identity.ClientConfig(key, everybody{}, protocol)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
		if err == nil {
			return false
		}
	}
	return true
}

// scribe writes the log of one life of a machine.
type scribe struct {
	key   ed25519.PrivateKey
	birth crdt.Birth
	auth  []crdt.ID // what it has seen of the authorisation log
	head  crdt.Head
	nonce uint64
}

func (v *victims) newScribe(t *testing.T, name string, life uint64) *scribe {
	t.Helper()
	key, auth := rig.KeyOf(name), []crdt.ID(nil)
	if err := v.rigs[0].Loop.Query(t.Context(), func(c *peer.Core) { auth = c.AuthLog().Seen(id(name)) }); err != nil {
		t.Fatal(err)
	}
	return &scribe{key: key, auth: auth, birth: crdt.Birth{PublicKey: key.Public().(ed25519.PublicKey), Nonce: life}}
}

// next is the next batch of the log: a person creates an Allow.
func (s *scribe) next(name, value string) crdt.Batch {
	s.nonce++
	change := crdt.Change{
		Object: crdt.Ref(allowKey(name)), Author: "user:mallory", Auth: s.auth,
		HLC: uint64(time.Now().UnixMilli()) << 16, Nonce: s.nonce, Level: peer.Level,
		Ops: []crdt.Op{{Kind: crdt.OpCreate}, {Kind: crdt.OpSet, Path: "spec.to.labels.app", Value: api.Str(value)}},
	}
	b := crdt.Batch{Actor: s.birth.ActorID(), First: s.head.Seq + 1, Prev: s.head.Hash, Changes: [][]byte{change.Encode()}}
	if b.First == 1 {
		b.Birth = &s.birth
	}
	return crdt.SignBatch(b, crdt.Ed25519Signer(s.key))
}

// wrote notes that a batch is part of the log.
func (s *scribe) wrote(b crdt.Batch) crdt.Batch {
	s.head = b.Head()
	return b
}
