package crdt

import (
	"crypto/ed25519"
	"encoding/binary"
)

// The encodings are canonical: one value has one encoding, and a decoder refuses
// every other. Integers are shortest-form uvarints, or 8 bytes big-endian where
// most bits are used; strings are length-prefixed. A format begins with its version.
//
//	change  version, body
//	body    flags, kind, namespace, name, [incarnation], parents, auth, author,
//	        hlc:8, nonce:8, level, [set], message, ops, extension
//	op      kind:1, payload (length-prefixed)
//	birth   version, public key, nonce:8, 0 | 1 before head
//	batch   version, actor, first, birth | prev, changes, sig
//	stub    0, ID:32, in the place of a change that was compacted
//	compacted  version, public key, nonce:8, spans, sig
//
// The extension is whatever follows the last operation: a later level may put
// fields there, which this one keeps and relays. An unknown operation's payload is
// kept in Op.Value.
const version = 1

// The limits of what a decoder accepts.
const (
	MaxChange  = 256 << 10 // bytes of one encoded change
	MaxBatch   = 1 << 20   // bytes of one encoded batch
	MaxEntries = 4096      // changes in a batch
	MaxOps     = 4096      // operations in a change
	MaxParents = 64        // parents, and authorisation heads, of a change
	MaxName    = 255       // bytes of a kind, namespace, name, author or step
	MaxPath    = 1024      // bytes of a field path
	MaxMessage = 4096      // bytes of a note or of an error message
	MaxOutputs = 512       // outputs of a register
	MaxSig     = 64        // bytes of a signature

	maxSeq = 1<<62 - 1
	maxHLC = 1<<63 - 1 // leaves room for the stamps of descendants
)

const (
	hasIncarnation = 1 << iota
	hasSet
	allFlags = hasIncarnation | hasSet
)

// Encode returns the stored form of a change.
func (c Change) Encode() []byte {
	b := make([]byte, 0, 512)
	return c.appendBody(append(b, version))
}

func (c Change) appendBody(b []byte) []byte {
	b = append(b, c.flags())
	b = appendString(b, c.Object.Kind)
	b = appendString(b, c.Object.Namespace)
	b = appendString(b, c.Object.Name)
	if !c.Incarnation.IsZero() {
		b = append(b, c.Incarnation[:]...)
	}
	b = appendIDs(b, c.Parents)
	b = appendIDs(b, c.Auth)
	b = appendString(b, c.Author)
	b = binary.BigEndian.AppendUint64(b, c.HLC)
	b = binary.BigEndian.AppendUint64(b, c.Nonce)
	b = binary.AppendUvarint(b, uint64(c.Level))
	if c.Set != [16]byte{} {
		b = append(b, c.Set[:]...)
	}
	b = appendString(b, c.Message)
	b = binary.AppendUvarint(b, uint64(len(c.Ops)))
	for i := range c.Ops {
		b = append(b, byte(c.Ops[i].Kind))
		start := len(b)
		b = c.Ops[i].appendPayload(b)
		b = insertLength(b, start)
	}
	return append(b, c.extension...)
}

func (c Change) flags() (f byte) {
	if !c.Incarnation.IsZero() {
		f |= hasIncarnation
	}
	if c.Set != [16]byte{} {
		f |= hasSet
	}
	return f
}

// Validate reports why a change would be refused by [DecodeChange]: a limit is
// exceeded, or something is not sorted. Authors ask before they write it.
func (c Change) Validate() error {
	_, err := DecodeChange(c.Encode())
	return err
}

// DecodeChange reads a change in its stored form. Its place is the caller's to tell.
func DecodeChange(b []byte) (Change, error) {
	r := &reader{}
	if len(b) > MaxChange {
		r.fail("the change", "is too large")
		return Change{}, r.end("change")
	}
	r.rest = string(b)
	if r.byte("version") != version {
		r.fail("the version", "is unknown")
	}
	c := r.body()
	if err := r.end("change"); err != nil {
		return Change{}, err
	}
	return c, nil
}

func (r *reader) body() (c Change) {
	flags := r.byte("flags")
	if flags&^allFlags != 0 {
		r.fail("flags", "are unknown")
	}
	c.Object = Ref{r.text(MaxName, "kind"), r.text(MaxName, "namespace"), r.text(MaxName, "name")}
	if flags&hasIncarnation != 0 {
		c.Incarnation = r.id("incarnation")
	}
	c.Parents = r.sortedIDs(MaxParents, "parents")
	c.Auth = r.sortedIDs(MaxParents, "authorisation heads")
	c.Author = r.text(MaxName, "author")
	if c.HLC = r.uint64("hlc"); c.HLC > maxHLC {
		r.fail("hlc", "is beyond its limit")
	}
	c.Nonce = r.uint64("nonce")
	c.Level = uint32(r.uvarint(1<<32-1, "level"))
	if flags&hasSet != 0 {
		copy(c.Set[:], r.take(len(c.Set), "change set"))
	}
	c.Message = r.text(MaxMessage, "message")
	c.Ops = r.ops()
	c.extension, r.rest = r.rest, ""
	if r.err == nil && c.flags() != flags {
		r.fail("flags", "announce an empty field")
	}
	return c
}

func (o *Op) appendPayload(b []byte) []byte {
	switch o.Kind {
	case OpSet:
		return append(appendString(b, o.Path), o.Value...)
	case OpUnset:
		return append(b, o.Path...)
	case OpCreate, OpDelete:
		return b
	case OpResult:
		b = appendString(b, o.Path)
		if o.Register == nil {
			return b
		}
		return o.Register.append(b)
	default:
		return append(b, o.Value...)
	}
}

// insertLength puts the length of what begins at start before it.
func insertLength(b []byte, start int) []byte {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(b)-start))
	b = append(b, length[:n]...)
	copy(b[start+n:], b[start:len(b)-n])
	copy(b[start:], length[:n])
	return b
}

func (r *reader) ops() []Op {
	n := int(r.uvarint(MaxOps, "operations"))
	if n == 0 || 2*n > len(r.rest) { // an operation takes two bytes at least
		if n > 0 {
			r.fail("operations", "are cut short")
		}
		return nil
	}
	ops := make([]Op, n)
	for i := range ops {
		kind := OpKind(r.byte("operation"))
		p := &reader{rest: r.bytes(MaxChange, "operation")}
		ops[i] = p.op(kind)
		if p.err == nil && p.rest != "" {
			p.fail("operation", "has bytes after its end")
		}
		if p.err != nil && r.err == nil {
			r.err, r.rest = p.err, ""
		}
	}
	return ops
}

func (r *reader) op(kind OpKind) Op {
	o := Op{Kind: kind}
	switch kind {
	case OpSet:
		o.Path = r.text(MaxPath, "field path")
		o.Value = r.utf8(r.all(), "field value")
	case OpUnset:
		if len(r.rest) > MaxPath {
			r.fail("field path", "is too long")
		}
		o.Path = r.utf8(r.all(), "field path")
	case OpCreate, OpDelete:
	case OpResult:
		o.Path = r.text(MaxName, "step")
		o.Register = r.register()
	default:
		o.Value = r.all()
	}
	return o
}

func (r *reader) all() string {
	s := r.rest
	r.rest = ""
	return s
}

// Encode returns the form of a birth that its batch carries and its log's hashes
// start from.
func (b Birth) Encode() []byte {
	e := append(make([]byte, 0, 128), version)
	e = appendString(e, string(b.PublicKey))
	e = binary.BigEndian.AppendUint64(e, b.Nonce)
	if b.Before.IsZero() {
		return append(e, 0)
	}
	e = append(append(e, 1), b.Before[:]...)
	e = binary.AppendUvarint(e, b.BeforeHead.Seq)
	return append(e, b.BeforeHead.Hash[:]...)
}

// DecodeBirth reads what [Birth.Encode] wrote.
func DecodeBirth(b []byte) (Birth, error) {
	r := &reader{rest: string(b)}
	birth := r.birth()
	if err := r.end("birth"); err != nil {
		return Birth{}, err
	}
	return birth, nil
}

func (r *reader) birth() (b Birth) {
	if r.byte("birth's version") != version {
		r.fail("the birth's version", "is unknown")
	}
	b.PublicKey = []byte(r.bytes(ed25519.PublicKeySize, "public key"))
	if len(b.PublicKey) != ed25519.PublicKeySize {
		r.fail("public key", "is not of 32 bytes")
	}
	b.Nonce = r.uint64("birth's nonce")
	switch r.byte("birth's predecessor") {
	case 0:
	case 1:
		b.Before = r.actor("actor before")
		b.BeforeHead = Head{r.uvarint(maxSeq, "head before"), r.id("head before")}
		if b.Before.IsZero() {
			r.fail("actor before", "is announced and empty")
		}
	default:
		r.fail("birth's predecessor", "is neither there nor not")
	}
	return b
}

// Encode returns the form of a batch that is stored and sent.
func (b Batch) Encode() []byte {
	e := make([]byte, 0, b.size())
	e = append(append(e, version), b.Actor[:]...)
	e = binary.AppendUvarint(e, b.First)
	if b.First > 1 {
		e = append(e, b.Prev[:]...)
	} else if b.Birth != nil {
		e = append(e, b.Birth.Encode()...)
	}
	e = binary.AppendUvarint(e, uint64(len(b.Changes)))
	for _, c := range b.Changes {
		e = binary.AppendUvarint(e, uint64(len(c)))
		e = append(e, c...)
	}
	return appendString(e, string(b.Sig))
}

// size is an upper bound of the encoding's length.
func (b Batch) size() int {
	n := 256
	for _, c := range b.Changes {
		n += len(c) + binary.MaxVarintLen32
	}
	return n
}

// DecodeBatch reads what [Batch.Encode] wrote. It checks neither the signature nor
// the changes: a bad change has no effect, but it must not stop the actor's log.
func DecodeBatch(b []byte) (Batch, error) {
	r := &reader{}
	if len(b) > MaxBatch {
		r.fail("the batch", "is too large")
		return Batch{}, r.end("batch")
	}
	r.rest = string(b)
	batch := r.batch()
	if err := r.end("batch"); err != nil {
		return Batch{}, err
	}
	return batch, nil
}

func (r *reader) batch() (b Batch) {
	if r.byte("version") != version {
		r.fail("the version", "is unknown")
	}
	b.Actor = r.actor("actor")
	switch b.First = r.uvarint(maxSeq, "first entry"); b.First {
	case 0:
		r.fail("first entry", "is 0")
	case 1:
		birth := r.birth()
		b.Birth = &birth
	default:
		b.Prev = r.id("hash of the entry before")
	}
	b.Changes = r.changes()
	if sig := r.bytes(MaxSig, "signature"); sig != "" {
		b.Sig = []byte(sig)
	}
	return b
}

func (r *reader) changes() [][]byte {
	n := int(r.uvarint(MaxEntries, "entries"))
	if n == 0 || n > len(r.rest) {
		r.fail("entries", "are missing")
		return nil
	}
	changes := make([][]byte, n)
	for i := range changes {
		changes[i] = []byte(r.bytes(MaxChange, "entry"))
	}
	return changes
}
