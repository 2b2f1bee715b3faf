package peer

import (
	"encoding/binary"
	"errors"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// A note is what the engine has to know of an object at rest so that others are decided on
// rightly: where it is placed and what it reserves there, whose child it is, whether it is
// over. It goes with the object into a checkpoint, so that a start need not decode every
// object before it answers. It is believed only until the object was looked at.
type note struct {
	life     uint64 // 0: there is no such object (any more), and nothing else is said
	gone     bool
	moved    bool // it may need a route of its own
	recent   bool // results of it are among the latest
	placed   string
	reserved lifecycle.Reservation
	parent   string
}

const (
	noteGone = 1 << iota
	noteMoved
	noteRecent
)

func (n *note) encode() string {
	flags := byte(0)
	for i, set := range []bool{n.gone, n.moved, n.recent} {
		if set {
			flags |= 1 << i
		}
	}
	b := append(make([]byte, 0, 64), flags)
	b = binary.BigEndian.AppendUint64(b, n.life)
	b = binary.AppendVarint(b, n.reserved.CPU)
	b = binary.AppendVarint(b, n.reserved.Memory)
	b = binary.AppendUvarint(b, uint64(len(n.reserved.Ports)))
	for _, port := range sortedKeys(n.reserved.Ports) {
		b = binary.AppendUvarint(b, uint64(port))
		b = binary.AppendVarint(b, int64(n.reserved.Ports[port]))
	}
	b = binary.AppendUvarint(b, uint64(len(n.placed)))
	b = append(b, n.placed...)
	return string(append(b, n.parent...))
}

var errNote = errors.New("what the checkpoint says of an object can't be read")

func decodeNote(s string) (n note, err error) {
	if s == "" {
		return n, nil // nothing is known of it
	}
	b := []byte(s)
	if len(b) < 9 {
		return n, errNote
	}
	n.gone, n.moved, n.recent = b[0]&noteGone != 0, b[0]&noteMoved != 0, b[0]&noteRecent != 0
	n.life = binary.BigEndian.Uint64(b[1:])
	r := noteReader{rest: b[9:]}
	n.reserved.CPU, n.reserved.Memory = r.varint(), r.varint()
	for range r.uvarint(1 << 16) {
		if n.reserved.Ports == nil {
			n.reserved.Ports = map[uint16]int{}
		}
		port := uint16(r.uvarint(1<<16 - 1))
		n.reserved.Ports[port] = int(r.varint())
	}
	placed := r.uvarint(uint64(len(r.rest)))
	if r.bad || placed > uint64(len(r.rest)) {
		return n, errNote
	}
	n.placed, n.parent = string(r.rest[:placed]), string(r.rest[placed:])
	return n, nil
}

type noteReader struct {
	rest []byte
	bad  bool
}

func (r *noteReader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > limit {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *noteReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// noteOf is what the engine knows of an object without looking at it.
func (e *engine) noteOf(t *tracked) note {
	_, moved := e.moved[t.ref]
	return note{life: t.life, gone: t.gone, moved: moved, placed: t.placed, reserved: t.reserved, parent: t.parent}
}

// facts is what a note of the object says if it is right.
func (e *engine) facts(t *tracked) note {
	n := note{gone: t.gone}
	o, ok := e.c.journal.state.Object(t.ref)
	if !ok {
		return n
	}
	n.life, n.moved = lifeOf(o), e.routed(t.snap()) != [4]string{}
	n.placed, n.reserved = e.placement(t)
	n.parent = t.snap().Fields.String(parentObject)
	return n
}

func (n *note) equal(o *note) bool {
	return n.life == o.life && n.gone == o.gone && n.moved == o.moved && n.placed == o.placed &&
		n.reserved.Equal(o.reserved) && n.parent == o.parent
}

// notes returns what goes into a checkpoint with each object.
func (c *Core) notes() func(crdt.Ref) string {
	recent := c.journal.recent.objects()
	return func(ref crdt.Ref) string {
		t := c.engine.objects[ref]
		if t == nil {
			return ""
		}
		n := c.engine.noteOf(t)
		n.recent = recent[ref]
		return n.encode()
	}
}

// noted is an object of a checkpoint with its note.
type noted struct {
	ref crdt.Ref
	note
}

// believable reports whether an object need not be looked at before the start is over: a
// note says of it all that concerns others.
func (e *engine) believable(n *noted) bool {
	kind, builtIn := e.c.cfg.Kinds[n.ref.Kind]
	return builtIn && kind.Reservation != nil && !n.moved && n.life != 0
}

// believe takes over a note. What this machine runs, and what runs nowhere, is looked at
// first; all else later.
func (e *engine) believe(n *noted) {
	t := e.track(n.ref)
	t.life, t.gone, t.unseen = n.life, n.gone, true
	t.placed, t.reserved, t.parent = e.names.One(n.placed), n.reserved, e.names.One(n.parent)
	e.children.add(t.parent, t)
	e.placed.add(t.placed, t)
	e.usage[t.placed] = e.usage[t.placed].Add(n.reserved)
	if !t.gone && (t.placed == "" || t.placed == e.c.self.Name) {
		e.mark(n.ref)
		return
	}
	e.unseen = append(e.unseen, t)
}

const (
	// lookedAtOnce is how many objects, of those that nobody looked at since the start, are
	// looked at before the turn ends, if there is nothing else to look at.
	lookedAtOnce = 64
	// lookPause is the pause after that: others have things to do, too.
	lookPause = time.Millisecond
)

// look has the next of the objects looked at that nobody looked at since the start. What
// is asked about meanwhile is looked at by itself.
func (e *engine) look() {
	for n := 0; n < lookedAtOnce && len(e.unseen) > 0; {
		t := e.unseen[0]
		if e.unseen = e.unseen[1:]; t.unseen && !t.marked {
			e.mark(t.ref)
			n++
		}
	}
	if len(e.unseen) == 0 {
		e.unseen = nil
	}
}

// nextLook is when more of them are to be looked at.
func (e *engine) nextLook() time.Time {
	if len(e.unseen) == 0 {
		return time.Time{}
	}
	return e.c.now.Add(lookPause)
}

// seen checks what a note said of an object when it is first looked at.
func (e *engine) seen(t *tracked) {
	if !t.unseen {
		return
	}
	t.unseen = false
	said, is := e.noteOf(t), e.facts(t)
	if !is.equal(&said) {
		t.warm = nil // or what it is accounted for would count as known
		e.changed(t.ref)
	}
}

// maxNames bounds the names of machines and parents of which one copy is kept.
const maxNames = 1 << 16
