//go:build planted

package sim

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/peer"
)

// A checker that never objects proves nothing. Each bug below is planted between the
// core and its world, and has to be caught within a few short seeds.

// withinSeeds is how many seeds a bug may survive.
const withinSeeds = 1000

// bug is a known bug. plant makes it for one run of one seed.
type bug struct {
	name string
	// caught lists the invariants that may catch it.
	caught []int
	plant  func() hooks
}

func TestPlantedBugs(t *testing.T) {
	each(1, uint64(len(bugs)), func(i uint64) { bugs[i-1].hunt(t) })
}

// hunt looks for the first seed that catches the bug.
func (b bug) hunt(t *testing.T) {
	begin := time.Now()
	for seed := uint64(1); seed <= withinSeeds; seed++ {
		var v *Violation
		if _, err := run(short(seed), b.plant()); !errors.As(err, &v) {
			continue
		}
		if !slices.Contains(b.caught, v.Invariant) {
			t.Errorf("%s: seed %d caught it, but as something else: %v", b.name, seed, v)
		}
		t.Logf("%s: seed %d, after %.1f s: invariant %d: %s", b.name, seed, time.Since(begin).Seconds(), v.Invariant, v.Message)
		return
	}
	t.Errorf("%s: %d seeds did not catch it", b.name, withinSeeds)
}

var bugs = []bug{
	{"a sync is reported and not done", []int{2}, func() hooks {
		return hooks{unsynced: func(m *machine) bool { return m.w.random.disk.chance(0.2) }, weather: crashing}
	}},
	{"entries of others are acknowledged and dropped", []int{2}, func() hooks {
		return hooks{commit: dropForeign}
	}},
	{"a sequence number is used again", []int{2, 3}, func() hooks {
		return hooks{config: sameActor, weather: restoring}
	}},
	{"signatures are not checked", []int{2, 3}, func() hooks {
		return hooks{verify: believe, weather: func(w *weather) { w.forge = 2 * time.Second }}
	}},
	{"messages leave before the sync", []int{2}, func() hooks {
		return hooks{early: sendEarly}
	}},
	{"an answer names a machine that was only told", []int{2}, func() hooks {
		return hooks{early: claimHolder}
	}},
	{"silence counts as a vote", []int{6, 7}, func() hooks {
		return hooks{send: voteForTheSilent, weather: splitting}
	}},
	{"a machine admits without its ledger", []int{6}, func() hooks {
		return hooks{config: podLoops(func(s *lifecycle.Step) {
			if s.Name == "admit" {
				decide := s.Decide
				s.Decide = func(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) { return decide(noLedger{v}, in) }
			}
		}), weather: crowding}
	}},
	{"what was made is not kept over a restart, nor looked for", []int{6, 7, 8}, func() hooks {
		return hooks{commit: forgetLocal("effect/"), unswept: true, weather: crashing}
	}},
	{"a machine is not looked over at the start", []int{6, 7, 8}, func() hooks {
		return hooks{unswept: true, weather: restoring}
	}},
	{"addresses are not drawn at random", []int{8}, func() hooks {
		return hooks{config: podLoops(func(s *lifecycle.Step) {
			if s.Name == "address" {
				s.Decide = func(lifecycle.View, lifecycle.Inputs) (lifecycle.Outputs, error) {
					return lifecycle.Outputs{"status.address": api.Str("fd00::1:1")}, nil
				}
			}
		})}
	}},
	{"a network is never taken back", []int{8}, func() hooks {
		return hooks{config: podLoops(func(s *lifecycle.Step) {
			if s.Name == "network" {
				s.Undo = nil
			}
		})}
	}},
	{"containers are said to be stopped and run on", []int{6, 7}, func() hooks {
		return hooks{config: podLoops(func(s *lifecycle.Step) {
			if s.Name == "container" {
				s.Undo = doNothing
			}
		})}
	}},
	{"whoever asks owns the field", []int{5}, func() hooks {
		return hooks{config: ownNothing, weather: func(w *weather) { w.trespass = time.Second }}
	}},
	{"a result that counts is taken for superseded", []int{1, 2, 4}, func() hooks {
		return hooks{config: misjudge, weather: compacting}
	}},
	{"content that counts is dropped from a disk", []int{1, 2, 4}, func() hooks {
		return hooks{commit: dropContent}
	}},
	{"a deletion is covered, and what it ended is not", []int{1, 2, 4}, func() hooks {
		return hooks{commit: endTooEarly, weather: collecting}
	}},
	{"statements don't say what they presume", []int{1, 2, 4}, func() hooks {
		return hooks{send: presumeNothing, weather: collecting}
	}},
	{"a rollout takes more out of service than it may", []int{12}, func() hooks {
		return hooks{config: hasty, weather: func(w *weather) { w.roll = true }}
	}},
	{"the fold depends on the order of arrival", []int{1, 4, 5}, func() hooks {
		return hooks{config: firstComeOwnership, weather: func(w *weather) { w.trespass = time.Second }}
	}},
}

// TestPlantedSeedFromOutside: a random source that is not the seed's gives two traces.
func TestPlantedSeedFromOutside(t *testing.T) {
	outside := uint64(0)
	h := hooks{config: func(_ *machine, c *peer.Config, _ *peer.Recovery) {
		outside++
		c.Seed = outside
	}}
	first, err := run(short(1), h)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := run(short(1), h); again.TraceHash == first.TraceHash {
		t.Error("the traces are equal")
	}
}

func crashing(w *weather) {
	w.kill, w.power = 3*time.Second, 5*time.Second
	w.edit = 300 * time.Millisecond
}

func restoring(w *weather) {
	w.restore, w.edit = 4*time.Second, 300*time.Millisecond
}

func splitting(w *weather) {
	w.partition, w.edit = 5*time.Second, 500*time.Millisecond
	w.oneWay, w.minority = false, false
	w.pause, w.rot, w.misread, w.equivocate, w.upgrade = 0, 0, 0, 0, 0 // they only get into each other's way
}

// crowding leaves machines room for few pods.
func crowding(w *weather) {
	w.tight = true
	w.edit = 300 * time.Millisecond
	w.partition = 5 * time.Second
}

// dropForeign keeps a fifth of the commits from containing what others wrote.
func dropForeign(m *machine, c crdt.Commit) crdt.Commit {
	if m.w.random.disk.chance(0.2) {
		c.Batches = slices.DeleteFunc(slices.Clone(c.Batches), func(b crdt.Batch) bool { return b.Actor != c.HighWater.Actor })
	}
	return c
}

// sameActor has each life of a machine draw the same numbers, and trust its disk.
func sameActor(m *machine, c *peer.Config, r *peer.Recovery) { c.Seed = uint64(m.index) }

func believe(ed25519.PublicKey, []byte, []byte) bool { return true }

func sendEarly(_ *machine, r *peer.Ready) peer.Ready {
	early := peer.Ready{Send: r.Send}
	r.Send = nil
	return early
}

// claimHolder answers with some machine that is connected.
func claimHolder(m *machine, r *peer.Ready) peer.Ready {
	for i := range r.Answers {
		for _, other := range m.w.machines {
			if other != m && r.Answers[i].Set != "" && m.w.net.twoWay(m, other) {
				r.Answers[i].HeldBy = m.core.NameOf(other.id)
			}
		}
	}
	return peer.Ready{}
}

// voteForTheSilent answers in the place of voters that can't.
func voteForTheSilent(from *machine, e peer.Envelope) []peer.Envelope {
	ask, ok := e.Message.(peer.Ask)
	to := from.w.byID[e.To]
	if ok && to != nil && !from.w.net.twoWay(from, to) {
		from.later(time.Millisecond, func() {
			from.post(peer.Received{From: e.To, Message: peer.Vote{Nonce: ask.Nonce, Machine: ask.Machine, Silent: true}})
		})
	}
	return []peer.Envelope{e}
}

// podLoops compiles the lifecycle of pods anew, with altered steps.
func podLoops(alter func(*lifecycle.Step)) func(*machine, *peer.Config, *peer.Recovery) {
	return func(m *machine, c *peer.Config, _ *peer.Recovery) {
		list := loops.Pod()
		for i := range list {
			for j := range list[i].Steps {
				alter(&list[i].Steps[j])
			}
		}
		g, err := lifecycle.NewGraph("Pod", loops.PodTargets(), list)
		if err != nil {
			m.w.fail(0, "compile the planted lifecycle: %v", err)
			return
		}
		kinds := map[string]peer.Kind{}
		for name, k := range c.Kinds {
			kinds[name] = k
		}
		pod := kinds["Pod"]
		pod.Graph = g
		kinds["Pod"], c.Kinds = pod, kinds
	}
}

// noLedger is a view without what the machine has promised.
type noLedger struct{ lifecycle.View }

func (noLedger) Held(string) lifecycle.Reservation { return lifecycle.Reservation{} }

// Reserved hides the replicated sum as well, so that the scheduler is no second guard.
func (noLedger) Reserved(string, api.Key) lifecycle.Reservation { return lifecycle.Reservation{} }

// forgetLocal keeps a part of the private key space from the disk.
func forgetLocal(prefix string) func(*machine, crdt.Commit) crdt.Commit {
	return func(_ *machine, c crdt.Commit) crdt.Commit {
		c.Local = slices.DeleteFunc(slices.Clone(c.Local), func(w crdt.LocalWrite) bool { return strings.HasPrefix(w.Key, prefix) })
		return c
	}
}

// ownNothing lets every author pass for the owner: it says of each field that whoever
// trespasses in this simulation owns it, and people the rest.
func ownNothing(_ *machine, c *peer.Config, _ *peer.Recovery) {
	c.Ownership.Field = func(kind, path string) string {
		if path == "spec.labels.tier" {
			return api.LoopScheduler
		}
		return api.OwnerOf(kind, path)
	}
}

// firstComeOwnership gives a field to people until it was asked for often, which is at
// another change at each replica.
func firstComeOwnership(_ *machine, c *peer.Config, _ *peer.Recovery) {
	asked := 0
	c.Ownership.Field = func(kind, path string) string {
		if path == "spec.labels.tier" {
			if asked++; asked%2 == 1 {
				return api.LoopScheduler
			}
		}
		return api.OwnerOf(kind, path)
	}
}

func doNothing(context.Context, lifecycle.Host, lifecycle.Inputs) error { return nil }

// hasty decides about rollouts as if everything might be out of service.
func hasty(m *machine, c *peer.Config, _ *peer.Recovery) {
	loop := loops.Pinned()
	decide := loop.Steps[0].Manage
	loop.Steps[0].Manage = func(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, []lifecycle.Child, error) {
		lie := in
		lie.Fields = in.Fields.Clone()
		lie.Fields["spec.unavailable"] = api.Int(99)
		out, children, err := decide(v, lie)
		m.w.check.rollout(in, children)
		return out, children, err
	}
	g, err := lifecycle.NewGraph(loop.Kind, loops.PinnedTargets(), []lifecycle.Loop{loop})
	if err != nil {
		m.w.fail(0, "compile the planted lifecycle: %v", err)
		return
	}
	c.Kinds = maps.Clone(c.Kinds)
	kind := c.Kinds[loop.Kind]
	kind.Graph = g
	c.Kinds[loop.Kind] = kind
}
