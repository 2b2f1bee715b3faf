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
// constants below, objects by name; the last one counts them.
const checkpointMagic = "starling checkpoint 3\n"

const (
	recordBegin   = 'b' // level, the encoding of objects, how many there are, what the writer adds
	recordActor   = 'a' // actor:16, seq, hash:32, birth
	recordWaiting = 'w' // ID:32, machine:16, actor:16, seq, hash:32 and body of a change that waits
	recordObject  = 'o' // kind, namespace, name, what the writer says of it, the packed slot
	recordEnd     = 'e' // how many records came before
)

// ErrCheckpoint is wrapped by what says why a checkpoint is no good.
var ErrCheckpoint = errors.New("the checkpoint can't be used")

// Checkpoint is a log and its state as they were at one moment. It is written while both
// go on.
type Checkpoint struct {
	level   uint32
	extra   []byte
	actors  []ActorID
	heads   Heads
	births  map[ActorID]Birth
	waiting []waiter
	objects []captured
	from    io.ReaderAt // where objects are that were at rest already
	places  []place     // where objects were written to
}

// captured is a slot at that moment, and what the caller says of it.
type captured struct {
	slot   *slot
	packed *string
	stored place
	note   string
}

// Capture returns the checkpoint of this moment, at the cost of a few words per object.
// extra and what note returns for each name are for the caller.
func Capture(l *Log, s *State, extra []byte, note func(Ref) string) *Checkpoint {
	c := &Checkpoint{level: s.level, extra: extra, heads: l.Heads(), births: maps.Clone(l.births), from: s.file}
	c.actors = slices.SortedFunc(maps.Keys(c.heads), ActorID.Compare)
	for _, w := range s.room.byID {
		c.waiting = append(c.waiting, waiter{change: w.change, id: w.id})
	}
	slices.SortFunc(c.waiting, func(a, b waiter) int { return a.id.Compare(b.id) })
	c.objects = make([]captured, 0, len(s.slots))
	for ref, sl := range s.slots { // they are sorted when they are written
		if sl.contents != nil {
			s.keep(sl)
		}
		c.objects = append(c.objects, captured{sl, sl.packed, sl.stored, note(ref)})
	}
	return c
}

// Size is about how many bytes Write writes.
func (c *Checkpoint) Size() int64 {
	n := int64(1<<10 + 256*len(c.actors))
	for _, o := range c.objects {
		n += int64(o.stored.size) + int64(len(o.slot.ref.Name)+len(o.note)+64)
		if o.packed != nil {
			n += int64(len(*o.packed))
		}
	}
	return n + int64(MaxChange*min(len(c.waiting), 16))
}

// Write writes the checkpoint.
func (c *Checkpoint) Write(w io.Writer) error {
	out := &recordWriter{w: bufio.NewWriterSize(w, 64<<10)}
	_, _ = out.w.WriteString(checkpointMagic) // bufio keeps the error for Flush
	out.at = int64(len(checkpointMagic))
	b := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(c.level)), packVersion)
	b = binary.AppendUvarint(b, uint64(len(c.objects)))
	out.write(recordBegin, append(b, c.extra...))
	for _, actor := range c.actors {
		h := c.heads[actor]
		b := append(binary.AppendUvarint(append([]byte{}, actor[:]...), h.Seq), h.Hash[:]...)
		birth := c.births[actor]
		out.write(recordActor, append(b, birth.Encode()...))
	}
	for i := range c.waiting {
		out.write(recordWaiting, c.waiting[i].append(nil))
	}
	if err := c.writeObjects(out); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	out.write(recordEnd, binary.AppendUvarint(nil, out.count))
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	return nil
}

// writeObjects writes all objects, and notes where. Those that are at rest already come
// from the file that the state has them in.
func (c *Checkpoint) writeObjects(out *recordWriter) error {
	var record, read []byte
	c.places = make([]place, len(c.objects))
	slices.SortFunc(c.objects, func(a, b captured) int { return compareSlots(a.slot, b.slot) })
	for i, o := range c.objects {
		r := objectRecord{ref: o.slot.ref, note: o.note}
		switch {
		case o.packed != nil:
			r.packed = append(read[:0], *o.packed...)
			read = r.packed
		case o.stored.there():
			before, err := readObjectAt(c.from, o.slot, o.stored, &read)
			if err != nil {
				return &Unreadable{r.ref, err}
			}
			r.packed = before.packed
		}
		record = r.append(record[:0])
		c.places[i] = place{out.at, uint32(len(record) + 1)}
		out.write(recordObject, record)
	}
	return nil
}

type recordWriter struct {
	w     *bufio.Writer
	count uint64
	at    int64 // how much was written
}

func (o *recordWriter) write(kind byte, payload []byte) {
	sum := crc32.Update(crc32.Checksum([]byte{kind}, castagnoli()), castagnoli(), payload)
	head := binary.BigEndian.AppendUint32(make([]byte, 0, 9), uint32(len(payload)+1))
	head = append(binary.BigEndian.AppendUint32(head, sum), kind)
	_, _ = o.w.Write(head)
	_, _ = o.w.Write(payload)
	o.count++
	o.at += int64(len(head) + len(payload))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// maxRecord bounds a record of a checkpoint: an object with a very long history.
const maxRecord = 1 << 30

// recordHead is the length of what precedes a record's kind and payload.
const recordHead = 8

// readRecord reads one record by way of the buffer, which holds the payload afterwards.
func readRecord(r io.Reader, buffer *[]byte) (kind byte, payload []byte, err error) {
	b := slices.Grow((*buffer)[:0], recordHead)[:recordHead]
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, fmt.Errorf("it is cut short: %w", err)
	}
	n, sum := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if n == 0 || n > maxRecord {
		return 0, nil, fmt.Errorf("its length is %d", n)
	}
	for b = b[:0]; len(b) < int(n); { // by and by, since the length may be wrong
		some := min(int(n)-len(b), 1<<20)
		b = slices.Grow(b, some)[:len(b)+some]
		if _, err := io.ReadFull(r, b[len(b)-some:]); err != nil {
			return 0, nil, fmt.Errorf("it is cut short: %w", err)
		}
	}
	*buffer = b
	if crc32.Checksum(b, castagnoli()) != sum {
		return 0, nil, errors.New("its checksum does not match")
	}
	return b[0], b[1:], nil
}

// objectRecord is the payload of an object's record: the length of what precedes the packed
// slot, and both.
type objectRecord struct {
	ref    Ref
	note   string
	packed []byte // a part of the payload
}

func (o *objectRecord) append(b []byte) []byte {
	label := appendString(appendString(appendString(nil, o.ref.Kind), o.ref.Namespace), o.ref.Name)
	b = appendString(b, string(append(label, o.note...)))
	return append(b, o.packed...)
}

func parseObject(payload []byte) (o objectRecord, err error) {
	n, read := binary.Uvarint(payload)
	if read <= 0 || n > uint64(len(payload)-read) {
		return o, errors.New("its name is cut short")
	}
	r := &reader{rest: string(payload[read : read+int(n)])}
	o.ref = Ref{r.text(MaxName, "kind"), r.text(MaxName, "namespace"), r.text(MaxName, "name")}
	if o.note, o.packed = r.all(), payload[read+int(n):]; r.err != nil {
		return o, r.err
	}
	return o, nil
}

// ReadCheckpoint puts a checkpoint's contents into an empty log and an empty state, and
// returns what its writer added; noted is told what it said of each object. The file is the
// state's then, which reads objects from it. After an error neither may be used, and the
// file is still the caller's.
func ReadCheckpoint(file File, l *Log, s *State, noted func(Ref, string)) (extra []byte, err error) {
	in := &checkpointReader{r: bufio.NewReaderSize(file, 64<<10), log: l, state: s, noted: noted}
	magic := make([]byte, len(checkpointMagic))
	if _, err := io.ReadFull(in.r, magic); err != nil || string(magic) != checkpointMagic {
		return nil, fmt.Errorf("%w: it is none of this version", ErrCheckpoint)
	}
	in.at = int64(len(magic))
	for !in.ended {
		if err := in.record(); err != nil {
			return nil, fmt.Errorf("%w: record %d: %w", ErrCheckpoint, in.count, err)
		}
	}
	s.file = file
	for _, w := range in.waiting {
		s.Apply(w.change, w.id)
	}
	return in.extra, nil
}

type checkpointReader struct {
	r       *bufio.Reader
	log     *Log
	state   *State
	noted   func(Ref, string)
	buffer  []byte
	at      int64 // where the record begins
	count   uint64
	extra   []byte
	waiting []waiter
	last    Ref // object
	begun   bool
	ended   bool
}

func (in *checkpointReader) record() error {
	kind, payload, err := readRecord(in.r, &in.buffer)
	if err != nil {
		return err
	}
	if !in.begun && kind != recordBegin {
		return errors.New("the beginning is missing")
	}
	if kind == recordObject {
		err = in.object(payload)
	} else {
		err = in.take(kind, &reader{rest: string(payload)})
	}
	in.count++
	in.at += recordHead + 1 + int64(len(payload))
	return err
}

func (in *checkpointReader) take(kind byte, r *reader) error {
	switch kind {
	case recordBegin:
		level, pack := r.uvarint(1<<32-1, "level"), r.uvarint(noLimit, "encoding of objects")
		if r.err == nil && (level != uint64(in.state.level) || pack != packVersion) {
			return errors.New("it is of another level or version")
		}
		in.state.expect(int(min(r.uvarint(noLimit, "objects"), 1<<20)))
		in.extra, in.begun = []byte(r.all()), true
	case recordActor:
		return in.actor(r)
	case recordWaiting:
		in.waiting = append(in.waiting, r.waiter())
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

func (w *waiter) append(b []byte) []byte {
	at := w.change.At
	b = append(append(append(b, w.id[:]...), at.Machine[:]...), at.Actor[:]...)
	b = append(binary.AppendUvarint(b, at.Seq), at.Hash[:]...)
	return w.change.appendBody(b)
}

func (r *reader) waiter() (w waiter) {
	w.id = r.id("waiting change")
	at := Place{Machine: r.machine("its machine"), Actor: r.actor("its actor")}
	at.Head = Head{Seq: r.uvarint(maxSeq, "its entry"), Hash: r.id("its entry")}
	w.change = r.body()
	w.change.At = at
	return w
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

func (in *checkpointReader) object(payload []byte) error {
	o, err := parseObject(payload)
	if err != nil {
		return err
	}
	if in.last.Compare(o.ref) >= 0 {
		return fmt.Errorf("%s stands behind %s", o.ref, in.last)
	}
	ref := in.state.restore(o.ref, place{in.at, uint32(len(payload) + 1)})
	in.last = ref
	in.noted(ref, o.note)
	return nil
}

// expect makes room for so many objects, so that it need not be made again and again.
func (s *State) expect(objects int) {
	if len(s.slots) == 0 {
		s.slots = make(map[Ref]*slot, objects)
	}
}

// restore puts a slot back, at rest.
func (s *State) restore(ref Ref, p place) Ref {
	ref = Ref{s.names.One(ref.Kind), s.names.One(ref.Namespace), strings.Clone(ref.Name)}
	sl := &slot{ref: ref}
	s.store(sl, p)
	s.slots[ref] = sl
	s.list(sl)
	return ref
}

// Refs returns every name of which anything is known, sorted.
func (s *State) Refs() []Ref { return slices.SortedFunc(maps.Keys(s.slots), Ref.Compare) }
