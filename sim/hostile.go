package sim

import (
	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// This file has machines do what no honest program does, with their own keys.

// trespass has a machine write, in a log of its own making, what no loop of its may.
func (w *World) trespass() {
	r := w.random.chaos
	m := pick(r, w.members())
	var seen []peer.Seen
	if m.core == nil {
		return
	}
	if seen = m.core.List("Pod"); len(seen) == 0 {
		return
	}
	o := pick(r, seen)
	if o.Folded == nil {
		return
	}
	ch := crdt.Change{
		Object: crdt.Ref(o.Object.Key), Incarnation: o.Folded.ID(), Parents: o.Folded.Heads(),
		Auth: m.core.AuthLog().Seen(m.id), HLC: uint64(m.clock().UnixMilli()) << 16, Nonce: r.Uint64(), Level: peer.Level,
	}
	if r.chance(0.5) {
		ch.Author, ch.Ops = "loop:"+api.LoopScheduler, []crdt.Op{{Kind: crdt.OpSet, Path: "spec.labels.tier", Value: api.Str("stolen")}}
	} else {
		ch.Author, ch.Parents = "loop:"+api.LoopImage, nil
		ch.Ops = []crdt.Op{{Kind: crdt.OpResult, Path: "schedule", Register: &crdt.Register{
			Attempt: 1 << 40, Phase: crdt.PhaseDone, Executor: m.id, Outputs: map[string]string{"status.machine": api.Str(m.name)},
		}}}
	}
	w.sometimes("a loop trespasses")
	birth := crdt.Birth{PublicKey: publicOf(m.key), Nonce: r.Uint64()}
	b := crdt.SignBatch(crdt.Batch{Actor: birth.ActorID(), First: 1, Birth: &birth, Changes: [][]byte{ch.Encode()}}, m.signer())
	to := pick(r, w.members())
	w.after(0, func() { to.receive(m.id, peer.Push{Batches: [][]byte{b.Encode()}, Fresh: true}) })
}

// forge has a machine write into the log of another, which it can't sign for.
func (w *World) forge() {
	r := w.random.chaos
	m, victim := pick(r, w.members()), pick(r, w.members())
	if m == victim || m.core == nil || victim.disk.durable.high.Actor.IsZero() {
		return
	}
	high := victim.disk.durable.high
	ch := crdt.Change{
		Object: crdt.Ref(podKey(r.IntN(podNames))), Author: "user:mallory", HLC: uint64(m.clock().UnixMilli()) << 16,
		Auth: m.core.AuthLog().Seen(m.id), Nonce: r.Uint64(), Level: peer.Level, Ops: []crdt.Op{{Kind: crdt.OpCreate}},
	}
	b := crdt.Batch{Actor: high.Actor, First: high.Head.Seq + 1, Prev: high.Head.Hash, Changes: [][]byte{ch.Encode()}}
	b = crdt.SignBatch(b, m.signer())
	w.sometimes("an entry is forged")
	to := pick(r, w.members())
	w.after(0, func() { to.receive(m.id, peer.Push{Batches: [][]byte{b.Encode()}, Fresh: true}) })
}

// equivocate has a machine sign two histories of one log, and show them to different
// others: whoever sees both refuses the log from there on.
func (w *World) equivocate() {
	r := w.random.damage
	m := pick(r, w.members())
	if m.core == nil {
		return
	}
	o, ok := w.somePod(m, r)
	if !ok {
		return
	}
	birth := crdt.Birth{PublicKey: publicOf(m.key), Nonce: r.Uint64()}
	w.check.hostile[birth.ActorID()] = true
	var sides [2][]byte
	for i := range sides {
		ch := w.mallorysChange(m, o, r, crdt.Op{Kind: crdt.OpSet, Path: "spec.labels.side", Value: api.Int(int64(i))})
		b := crdt.SignBatch(crdt.Batch{Actor: birth.ActorID(), First: 1, Birth: &birth, Changes: [][]byte{ch.Encode()}}, m.signer())
		sides[i] = b.Encode()
	}
	w.sometimes("a log has two histories")
	w.say("%s signs two histories of one log", m.name)
	for i, to := range w.members() {
		if to != m {
			w.after(r.about(w.weather.delay), func() { to.receive(m.id, peer.Push{Batches: [][]byte{sides[i%2]}, Fresh: true}) })
		}
	}
}

// malform has a machine send bytes that mean nothing.
func (w *World) malform() {
	r := w.random.damage
	m, to := pick(r, w.members()), pick(r, w.members())
	if m.core == nil || m == to {
		return
	}
	frame := peer.EncodeMessage(peer.Push{Batches: [][]byte{{1, 2, 3}}, Fresh: true})
	for range 1 + r.IntN(8) {
		frame[r.IntN(len(frame))] ^= byte(1 << r.IntN(8))
	}
	w.sometimes("a message is malformed")
	if msg, err := peer.DecodeMessage(frame); err == nil {
		w.after(0, func() { to.receive(m.id, msg) })
	}
}

// somePod draws an object that the machine knows.
func (w *World) somePod(m *machine, r source) (peer.Seen, bool) {
	list := m.core.List("Pod")
	if len(list) == 0 {
		return peer.Seen{}, false
	}
	o := pick(r, list)
	return o, o.Folded != nil
}

// mallorysChange is a change to an object, as a person at that machine may make it.
func (w *World) mallorysChange(m *machine, o peer.Seen, r source, op crdt.Op) crdt.Change {
	return crdt.Change{
		Object: crdt.Ref(o.Object.Key), Incarnation: o.Folded.ID(), Parents: o.Folded.Heads(), Author: "user:mallory",
		Auth: m.core.AuthLog().Seen(m.id), HLC: uint64(m.clock().UnixMilli()) << 16, Nonce: r.Uint64(), Level: peer.Level,
		Ops: []crdt.Op{op},
	}
}
