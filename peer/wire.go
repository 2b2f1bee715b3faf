package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"starling.dev/starling/crdt"
)

// The wire format of messages between peers: one version byte, one kind byte, then
// the kind's fields; integers are unsigned varints, byte strings carry their length.

const wireVersion = 1

// Limits of one message. A frame is at most 4 MiB.
const (
	MaxFrame   = 4 << 20
	maxActors  = 100_000
	maxRecords = 100_000
)

// Message is what peers say to each other: one of the types below.
type Message interface{ kind() byte }

// Push carries batches: new ones along the tree, or those that a peer pulled.
type Push struct {
	Batches [][]byte
	// Fresh: just written, to be passed on; else an answer to a Pull, to be kept.
	Fresh bool
	// Last ends the answer to a Pull.
	Last bool
	// checked are the batches as the verifier has read them; it is not sent.
	checked []received
}

// Have tells over a lazy link which heads the sender has just got.
type Have struct {
	Heads crdt.Heads
}

// Graft asks for entries that were announced and did not come, and makes the link
// eager for their actors.
type Graft struct {
	Ranges []crdt.Range
}

// Prune makes a link lazy for an actor: what came over it was there already.
type Prune struct{ Actor crdt.ActorID }

// Pull asks for ranges of the log.
type Pull struct {
	Ranges []crdt.Range
}

// Digest is anti-entropy's first word: the hashes of what the sender holds.
type Digest struct {
	Heads, Auth, Compacted crdt.ID
}

// Vector is a version vector. Reply asks for the other's. Full: of all actors; else
// of those that changed since the two peers last found each other equal.
type Vector struct {
	Heads crdt.Heads
	Reply bool
	Full  bool
}

// Ack says which heads are durable at the sender.
type Ack struct {
	Heads crdt.Heads
}

// AuthOffer names the heads of the sender's authorisation log; Reply asks for the
// other's.
type AuthOffer struct {
	Heads []crdt.ID
	Reply bool
}

// AuthRecords carries authorisation records.
type AuthRecords struct {
	Records [][]byte
}

// Ask asks a voter whether it finds a machine silent now.
type Ask struct {
	Nonce   uint64
	Machine crdt.MachineID
	// Epoch is that of the voters as the sender knows them.
	Epoch uint64
}

// Vote is a voter's answer.
type Vote struct {
	Nonce   uint64
	Machine crdt.MachineID
	Silent  bool
	Epoch   uint64
}

func (Push) kind() byte        { return 1 }
func (Digest) kind() byte      { return 2 }
func (Vector) kind() byte      { return 3 }
func (Ack) kind() byte         { return 4 }
func (AuthOffer) kind() byte   { return 5 }
func (AuthRecords) kind() byte { return 6 }
func (Ask) kind() byte         { return 7 }
func (Vote) kind() byte        { return 8 }
func (Have) kind() byte        { return 9 }
func (Graft) kind() byte       { return 10 }
func (Prune) kind() byte       { return 11 }
func (Pull) kind() byte        { return 12 }

// EncodeMessage returns the frame of a message.
func EncodeMessage(m Message) []byte {
	b := []byte{wireVersion, m.kind()}
	switch m := m.(type) {
	case Push:
		b = appendList(appendBool(appendBool(b, m.Fresh), m.Last), m.Batches)
	case Digest:
		b = append(append(append(b, m.Heads[:]...), m.Auth[:]...), m.Compacted[:]...)
	case Vector:
		b = appendHeads(appendBool(appendBool(b, m.Reply), m.Full), m.Heads)
	case Ack:
		b = appendHeads(b, m.Heads)
	case Have:
		b = appendHeads(b, m.Heads)
	case Graft:
		b = appendRanges(b, m.Ranges)
	case Prune:
		b = append(b, m.Actor[:]...)
	case Pull:
		b = appendRanges(b, m.Ranges)
	case AuthOffer:
		b = binary.AppendUvarint(appendBool(b, m.Reply), uint64(len(m.Heads)))
		for _, id := range m.Heads {
			b = append(b, id[:]...)
		}
	case AuthRecords:
		b = appendList(b, m.Records)
	case CompactedOffer:
		b = appendSets(appendBool(b, m.Reply), m.Sets)
	case CompactedLogs:
		b = appendList(append(b, m.Settled[:]...), m.Statements)
	case Ask:
		b = binary.AppendUvarint(append(binary.AppendUvarint(b, m.Nonce), m.Machine[:]...), m.Epoch)
	case Vote:
		b = appendBool(append(binary.AppendUvarint(b, m.Nonce), m.Machine[:]...), m.Silent)
		b = binary.AppendUvarint(b, m.Epoch)
	default:
		b = appendVoting(b, m)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendList(b []byte, items [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(items)))
	for _, it := range items {
		b = append(binary.AppendUvarint(b, uint64(len(it))), it...)
	}
	return b
}

func appendHeads(b []byte, heads crdt.Heads) []byte {
	actors := slices.SortedFunc(maps.Keys(heads), func(x, y crdt.ActorID) int { return bytes.Compare(x[:], y[:]) })
	b = binary.AppendUvarint(b, uint64(len(actors)))
	for _, a := range actors {
		h := heads[a]
		b = append(binary.AppendUvarint(append(b, a[:]...), h.Seq), h.Hash[:]...)
	}
	return b
}

func appendRanges(b []byte, ranges []crdt.Range) []byte {
	b = binary.AppendUvarint(b, uint64(len(ranges)))
	for _, r := range ranges {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, r.Actor[:]...), r.From), r.To)
	}
	return b
}

// errTruncated ends every decoding that runs out of bytes.
var errTruncated = errors.New("message ends too early")

// DecodeMessage reads a frame. It never panics, and refuses trailing bytes.
func DecodeMessage(frame []byte) (Message, error) {
	if len(frame) < 2 || len(frame) > MaxFrame {
		return nil, errTruncated
	}
	if frame[0] != wireVersion {
		return nil, fmt.Errorf("message version %d; this peer speaks %d", frame[0], wireVersion)
	}
	r := &reader{b: frame[2:]}
	m := r.message(frame[1])
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes behind the message", len(r.b))
	}
	return m, r.err
}

// reader takes fields off a frame; after the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) message(kind byte) Message {
	switch kind {
	case Push{}.kind():
		return Push{Fresh: r.bool(), Last: r.bool(), Batches: r.list()}
	case Digest{}.kind():
		return Digest{Heads: r.id(), Auth: r.id(), Compacted: r.id()}
	case Vector{}.kind():
		return Vector{Reply: r.bool(), Full: r.bool(), Heads: r.heads()}
	case Ack{}.kind():
		return Ack{Heads: r.heads()}
	case AuthOffer{}.kind():
		return AuthOffer{Reply: r.bool(), Heads: r.ids()}
	case AuthRecords{}.kind():
		return AuthRecords{Records: r.list()}
	case CompactedOffer{}.kind():
		return CompactedOffer{Reply: r.bool(), Sets: r.sets()}
	case CompactedLogs{}.kind():
		return CompactedLogs{Settled: r.id(), Statements: r.list()}
	case Ask{}.kind():
		return Ask{Nonce: r.uvarint(), Machine: r.machine(), Epoch: r.uvarint()}
	case Vote{}.kind():
		return Vote{Nonce: r.uvarint(), Machine: r.machine(), Silent: r.bool(), Epoch: r.uvarint()}
	case Have{}.kind():
		return Have{Heads: r.heads()}
	case Graft{}.kind():
		return Graft{Ranges: r.ranges()}
	case Prune{}.kind():
		return Prune{Actor: r.actor()}
	case Pull{}.kind():
		return Pull{Ranges: r.ranges()}
	}
	if m := r.voting(kind); m != nil {
		return m
	}
	r.err = fmt.Errorf("message kind %d is unknown", kind)
	return nil
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = errTruncated
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.err == nil && n <= 0 {
		r.err = errTruncated
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a length that at least size bytes each must follow.
func (r *reader) count(limit, size int) int {
	n := r.uvarint()
	if r.err == nil && (n > uint64(limit) || n*uint64(size) > uint64(len(r.b))) {
		r.err = errTruncated
		return 0
	}
	return int(n)
}

func (r *reader) bool() bool {
	b := r.take(1)
	return len(b) == 1 && b[0] == 1
}

func (r *reader) id() (id crdt.ID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) actor() (a crdt.ActorID) {
	copy(a[:], r.take(len(a)))
	return a
}

func (r *reader) machine() (id crdt.MachineID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) list() [][]byte {
	n := r.count(maxRecords, 1)
	items := make([][]byte, 0, n)
	for range n {
		items = append(items, r.take(r.count(MaxFrame, 1)))
	}
	return items
}

func (r *reader) ids() []crdt.ID {
	n := r.count(maxRecords, 32)
	ids := make([]crdt.ID, 0, n)
	for range n {
		ids = append(ids, r.id())
	}
	return ids
}

func (r *reader) heads() crdt.Heads {
	n := r.count(maxActors, 16+1+32)
	heads := make(crdt.Heads, n)
	for range n {
		a := r.actor()
		heads[a] = crdt.Head{Seq: r.uvarint(), Hash: r.id()}
	}
	return heads
}

func (r *reader) ranges() []crdt.Range {
	n := r.count(maxActors, 16+1+1)
	ranges := make([]crdt.Range, 0, n)
	for range n {
		ranges = append(ranges, crdt.Range{Actor: r.actor(), From: r.uvarint(), To: r.uvarint()})
	}
	return ranges
}
