package peer

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// Most objects are at rest most of the time. Of those the engine keeps a few words each;
// what it reads of an object is decoded from the folded one when somebody looks, and
// dropped when nobody did for a while. Nothing may depend on whether it is at hand.

// warm is what is at hand of an object that is looked at.
type warm struct {
	snap    *lifecycle.Object
	folded  *crdt.Object // what snap was made of
	machine string       // that it is placed on, as far as is decided
	own     bool         // this machine wrote a result of it
	memo    lifecycle.Memo
	invalid []api.Problem // of a merge that does not run for that reason
	used    bool          // since it was last considered for dropping
}

// defaultWarm is how many objects are kept at hand.
const defaultWarm = 256

// snap returns the object as the lifecycle engine reads it; nil if there is none (any
// more). It never changes.
func (t *tracked) snap() *lifecycle.Object {
	if t.life == 0 {
		return nil
	}
	return t.hand().snap
}

// hand returns what is at hand of an object that there is.
func (t *tracked) hand() *warm {
	if t.warm == nil {
		t.e.take(t)
	}
	t.warm.used = true
	return t.warm
}

// take makes the object, as it is folded now, accessible. It reports whether there is one.
func (e *engine) take(t *tracked) bool {
	o, ok := e.c.journal.state.Object(t.ref)
	if !ok {
		t.warm = nil
		return false
	}
	t.warm = e.snapshot(t, o, t.warm)
	e.standing(t.warm)
	t.warm.used = true
	if !t.waits && e.rests(t.ref.Kind) {
		t.waits = true
		e.atHand = append(e.atHand, t)
		e.drop()
	}
	return true
}

// standing notes what every evaluation asks for.
func (e *engine) standing(w *warm) {
	machine, _ := w.snap.Field("status.machine")
	w.machine = unquote(machine)
	for _, r := range w.snap.Results {
		w.own = w.own || r.Executor == e.c.self.Name
	}
}

// machine is where an object's steps on a machine run: for a Machine, itself.
func (t *tracked) machine() string {
	if t.ref.Kind == "Machine" {
		return t.ref.Name
	}
	return t.hand().machine
}

// rests reports whether objects of the kind are dropped at all: of some there are few, and
// many look at them.
func (e *engine) rests(kind string) bool {
	k, builtIn := e.c.cfg.Kinds[kind]
	return !builtIn || k.Reservation != nil
}

// drop lets go of what has not been looked at for longest.
func (e *engine) drop() {
	for len(e.atHand) > e.c.cfg.warm() {
		t := e.atHand[0]
		e.atHand = e.atHand[1:]
		if t.warm != nil && t.warm.used {
			t.warm.used = false
			e.atHand = append(e.atHand, t)
			continue
		}
		t.warm, t.waits = nil, false
		t.tidy()
	}
}

// tidy gives the memory of empty maps back.
func (t *tracked) tidy() {
	empty(&t.running)
	empty(&t.tries)
	empty(&t.adopted)
	empty(&t.queued)
	empty(&t.again)
	empty(&t.feedback)
	empty(&t.looked)
}

func empty[K comparable, V any](m *map[K]V) {
	if len(*m) == 0 {
		*m = nil
	}
}

// put writes into a map that is made when it is first needed.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// lifeOf is a short name of an incarnation, never 0.
func lifeOf(o *crdt.Object) uint64 {
	id := o.ID()
	return max(binary.BigEndian.Uint64(id[:8]), 1)
}

// byID finds the object of an identity.
func (e *engine) byID(id string) *tracked {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 8 {
		return nil
	}
	life := max(binary.BigEndian.Uint64(raw), 1)
	for _, t := range e.objects {
		if t.life == life && t.snap().ID == id {
			return t
		}
	}
	return nil
}

// feedLength is how many of the latest changes are remembered for those who follow.
const feedLength = 8192

// feed lists the objects that changed lately, in order. base counts those before, from a
// number that no other life of the peer is near.
type feed struct {
	base uint64
	list []*tracked
}

// changed notes that whoever follows the state has to look at the object again.
func (f *feed) changed(t *tracked) {
	if len(f.list) >= 2*feedLength {
		f.base += feedLength
		f.list = append(f.list[:0], f.list[feedLength:]...)
	}
	f.list = append(f.list, t)
}

// Changes visits the objects of a kind that changed since an earlier call, which returned
// the version: each once, with nil for one that is no more. With version 0, or one that
// is too old, it visits all that there are, and says so. Objects may be kept; they never
// change.
func (c *Core) Changes(kind string, since uint64, visit func(api.Key, *lifecycle.Object)) (version uint64, all bool) {
	f := &c.engine.feed
	version = f.base + uint64(len(f.list)) + 1
	if since <= f.base || since > version {
		for _, t := range c.engine.tracked(kind) {
			if o := t.shown(); o != nil {
				visit(api.Key(t.ref), o)
			}
		}
		return version, true
	}
	seen := map[*tracked]bool{}
	for _, t := range f.list[since-1-f.base:] {
		if t.ref.Kind == kind && !seen[t] {
			seen[t] = true
			visit(api.Key(t.ref), t.shown())
		}
	}
	return version, false
}

// shown is the object, unless it was deleted and taken down.
func (t *tracked) shown() *lifecycle.Object {
	if t.gone {
		return nil
	}
	return t.snap()
}

// tracked lists the objects of a kind, sorted by key.
func (e *engine) tracked(kind string) []*tracked {
	var list []*tracked
	for _, t := range e.objects {
		if t.ref.Kind == kind && t.life != 0 && !t.gone {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *tracked) int { return compareRefs(a.ref, b.ref) })
	return list
}
