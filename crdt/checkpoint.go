package crdt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
)

// A checkpoint holds a log's heads and the state folded up to there, so that a peer goes
// on from it without folding its whole log again. It is never the truth: whoever reads
// one compares its heads with the log, and in any doubt folds the log.
//
//	file    magic, records
//	record  length of the rest:4, CRC-32C of the rest:4, kind:1, payload
//
// All integers are big-endian. Records of a kind stand together, in the order of the
// constants below; the last one counts them.
const checkpointMagic = "starling checkpoint 1\n"

const (
	recordBegin   = 'b' // level, the encoding of objects, what the writer adds
	recordActor   = 'a' // actor:16, seq, hash:32, birth
	recordWaiting = 'w' // a change that waits, without its signature; its ID:32 before
	recordObject  = 'o' // kind, namespace, name, the packed slot
	recordEnd     = 'e' // how many records came before
)

// ErrCheckpoint is wrapped by what says why a checkpoint is no good.
var ErrCheckpoint = errors.New("the checkpoint can't be used")

// Checkpoint is a log and its state as they were at one moment. It never changes, and is
// written while both go on.
type Checkpoint struct {
	level   uint32
	extra   []byte
	actors  []ActorID
	heads   Heads
	births  map[ActorID]Birth
	waiting []waiter
	objects []packedObject
}

type packedObject struct {
	ref    Ref
	packed string
}

// Capture returns the checkpoint of this moment, at the cost of a few words per object.
// extra is for the caller.
func Capture(l *Log, s *State, extra []byte) *Checkpoint {
	c := &Checkpoint{level: s.level, extra: extra, heads: l.Heads(), births: maps.Clone(l.births)}
	c.actors = slices.SortedFunc(maps.Keys(c.heads), ActorID.Compare)
	for _, w := range s.room.byID {
		c.waiting = append(c.waiting, waiter{change: w.change, id: w.id})
	}
	slices.SortFunc(c.waiting, func(a, b waiter) int { return a.id.Compare(b.id) })
	c.objects = make([]packedObject, 0, len(s.slots))
	for ref, sl := range s.slots { // the order makes no difference to who reads it
		if sl.packed == "" && sl.contents != nil {
			s.pack(sl)
		}
		c.objects = append(c.objects, packedObject{ref, sl.packed})
	}
	return c
}

// Size is about how many bytes Write writes.
func (c *Checkpoint) Size() int64 {
	n := int64(1<<10 + 256*len(c.actors))
	for _, o := range c.objects {
		n += int64(len(o.packed) + len(o.ref.Name) + 64)
	}
	return n + int64(MaxChange*min(len(c.waiting), 16))
}

// Write writes the checkpoint.
func (c *Checkpoint) Write(w io.Writer) error {
	out := &recordWriter{w: bufio.NewWriterSize(w, int(min(c.Size(), 1<<20)))}
	_, _ = out.w.WriteString(checkpointMagic) // bufio keeps the error for Flush
	b := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(c.level)), packVersion)
	out.write(recordBegin, append(b, c.extra...))
	for _, actor := range c.actors {
		h := c.heads[actor]
		b := append(binary.AppendUvarint(append([]byte{}, actor[:]...), h.Seq), h.Hash[:]...)
		birth := c.births[actor]
		out.write(recordActor, append(b, birth.Encode()...))
	}
	for i := range c.waiting {
		out.write(recordWaiting, append(append([]byte{}, c.waiting[i].id[:]...), c.waiting[i].change.appendBody(nil)...))
	}
	var buffer []byte
	for _, o := range c.objects {
		buffer = appendString(appendString(appendString(buffer[:0], o.ref.Kind), o.ref.Namespace), o.ref.Name)
		buffer = append(buffer, o.packed...)
		out.write(recordObject, buffer)
	}
	out.write(recordEnd, binary.AppendUvarint(nil, out.count))
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

type recordWriter struct {
	w     *bufio.Writer
	count uint64
}

func (o *recordWriter) write(kind byte, payload []byte) {
	sum := crc32.Update(crc32.Checksum([]byte{kind}, castagnoli()), castagnoli(), payload)
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 9), uint32(len(payload)+1))
	head = append(binary.BigEndian.AppendUint32(head, sum), kind)
	_, _ = o.w.Write(head)
	_, _ = o.w.Write(payload)
	o.count++
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// maxRecord bounds a record of a checkpoint: an object with a very long history.
const maxRecord = 1 << 30

// ReadCheckpoint puts a checkpoint's contents into an empty log and an empty state, and
// returns what its writer added. After an error neither may be used.
func ReadCheckpoint(r io.Reader, l *Log, s *State) (extra []byte, err error) {
	in := &checkpointReader{r: bufio.NewReaderSize(r, 64<<10), log: l, state: s}
	magic := make([]byte, len(checkpointMagic))
	if _, err := io.ReadFull(in.r, magic); err != nil || string(magic) != checkpointMagic {
		return nil, fmt.Errorf("%w: it is none of this version", ErrCheckpoint)
	}
	for !in.ended {
		if err := in.record(); err != nil {
			return nil, fmt.Errorf("%w: record %d: %w", ErrCheckpoint, in.count, err)
		}
	}
	for _, w := range in.waiting {
		s.Apply(w.change, w.id)
	}
	return in.extra, nil
}

type checkpointReader struct {
	r       *bufio.Reader
	log     *Log
	state   *State
	buffer  []byte
	count   uint64
	extra   []byte
	waiting []waiter
	begun   bool
	ended   bool
}

func (in *checkpointReader) record() error {
	var head [8]byte
	if _, err := io.ReadFull(in.r, head[:]); err != nil {
		return fmt.Errorf("it is cut short: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxRecord {
		return fmt.Errorf("its length is %d", n)
	}
	in.buffer = slices.Grow(in.buffer[:0], int(n))[:n]
	if _, err := io.ReadFull(in.r, in.buffer); err != nil {
		return fmt.Errorf("it is cut short: %w", err)
	}
	if crc32.Checksum(in.buffer, castagnoli()) != binary.BigEndian.Uint32(head[4:]) {
		return errors.New("its checksum does not match")
	}
	kind := in.buffer[0]
	if !in.begun && kind != recordBegin {
		return errors.New("the beginning is missing")
	}
	err := in.take(kind, &reader{rest: string(in.buffer[1:])})
	in.count++
	return err
}

func (in *checkpointReader) take(kind byte, r *reader) error {
	switch kind {
	case recordBegin:
		level, pack := r.uvarint(1<<32-1, "level"), r.uvarint(noLimit, "encoding of objects")
		if r.err == nil && (level != uint64(in.state.level) || pack != packVersion) {
			return errors.New("it is of another level or version")
		}
		in.extra, in.begun = []byte(r.all()), true
	case recordActor:
		return in.actor(r)
	case recordWaiting:
		w := waiter{id: r.id("waiting change")}
		w.change = r.body()
		in.waiting = append(in.waiting, w)
	case recordObject:
		return in.object(r)
	case recordEnd:
		if count := r.uvarint(1<<62, "count"); count != in.count {
			return fmt.Errorf("of %d records there are %d", count, in.count)
		}
		in.ended = true
	default:
		return fmt.Errorf("its kind %q is unknown", kind)
	}
	return r.end("record")
}

func (in *checkpointReader) actor(r *reader) error {
	actor := r.actor("actor")
	head := Head{Seq: r.uvarint(maxSeq, "head"), Hash: r.id("head")}
	birth := r.birth()
	if err := r.end("actor"); err != nil {
		return err
	}
	return in.log.Restore(actor, birth, head)
}

func (in *checkpointReader) object(r *reader) error {
	ref := Ref{r.text(MaxName, "kind"), r.text(MaxName, "namespace"), r.text(MaxName, "name")}
	packed := r.all()
	if r.err != nil {
		return r.err
	}
	if _, twice := in.state.slots[ref]; twice {
		return fmt.Errorf("%s stands there twice", ref)
	}
	in.state.restore(ref, strings.Clone(packed))
	return nil
}

// restore puts a slot back, packed.
func (s *State) restore(ref Ref, packed string) {
	ref = Ref{s.intern(ref.Kind), s.intern(ref.Namespace), strings.Clone(ref.Name)}
	sl := &slot{ref: ref, packed: packed, dirty: true}
	s.slots[ref] = sl
	s.dirty = append(s.dirty, sl)
	s.list(sl)
}

// Refs returns every name of which anything is known, sorted.
func (s *State) Refs() []Ref { return slices.SortedFunc(maps.Keys(s.slots), Ref.Compare) }
