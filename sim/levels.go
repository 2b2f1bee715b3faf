package sim

import (
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// Two versions of the program: one folds changes up to peer.Level, the other those of the
// next level too. The older one keeps and forwards what it does not understand, and leaves
// the object alone.

const nextLevel = peer.Level + 1

// upgrade has a machine's peer start again as the newer program.
func (w *World) upgrade() {
	m := pick(w.random.damage, w.members())
	if m.level == nextLevel || m.core == nil {
		return
	}
	w.say("%s: the newer program takes over", m.name)
	w.sometimes("a machine is upgraded")
	m.kill()
	m.level = nextLevel
	w.after(w.random.damage.about(time.Second), m.restartIfDown)
}

// writeOfTheFuture has a machine with the newer program write a change of the next level.
func (w *World) writeOfTheFuture() {
	r := w.random.damage
	m := pick(r, w.members())
	if m.core == nil || m.level != nextLevel {
		return
	}
	o, ok := w.somePod(m, r)
	if !ok {
		return
	}
	ch := w.mallorysChange(m, o, r, crdt.Op{Kind: crdt.OpSet, Path: "spec.labels.future", Value: api.Int(r.Int64N(9))})
	ch.Level = nextLevel
	birth := crdt.Birth{PublicKey: publicOf(m.key), Nonce: r.Uint64()}
	b := crdt.SignBatch(crdt.Batch{Actor: birth.ActorID(), First: 1, Birth: &birth, Changes: [][]byte{ch.Encode()}}, m.signer())
	w.sometimes("a change of the next level")
	w.future = true
	to := pick(r, w.members())
	w.after(0, func() { to.receive(m.id, peer.Push{Batches: [][]byte{b.Encode()}, Fresh: true}) })
}

// upgradeAll brings every machine to the newer program, if anything needs it, and has
// whoever is still to be admitted come with it.
func (w *World) upgradeAll() {
	if !w.future {
		return
	}
	w.level = nextLevel
	for _, m := range w.members() {
		if m.level != nextLevel {
			m.kill()
			m.level = nextLevel
		}
	}
}
