package crdt

import (
	"fmt"
	"io"
)

// Objects at rest that did not change since a checkpoint was taken are not kept in memory:
// their records are read from its file one by one, and checked, when somebody asks.

// File is a checkpoint on the disk. It is read once from the beginning, and later at random.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// place is where an object's record begins in a file, and how long its payload is.
type place struct {
	at   int64
	size uint32
}

// there reports whether it is a place at all: no object's record begins a file.
func (p place) there() bool { return p.size > 0 }

// Unreadable is what a [State] panics with when an object can't be read from its checkpoint
// any more. It has the log folded anew: nothing of what was begun may leave.
type Unreadable struct {
	Object Ref
	Err    error
}

// Error says what can't be read.
func (u *Unreadable) Error() string {
	return fmt.Sprintf("read %s from the checkpoint: %v", u.Object, u.Err)
}

// Unwrap gives the cause.
func (u *Unreadable) Unwrap() error { return u.Err }

// load reads what was packed of a slot.
func (s *State) load(sl *slot) string {
	o, err := readObjectAt(s.file, sl, sl.stored, &s.scratch)
	if err != nil {
		panic(&Unreadable{sl.ref, err})
	}
	return string(o.packed)
}

// readObjectAt reads a slot's record from a file, by way of the buffer.
func readObjectAt(file io.ReaderAt, sl *slot, p place, buffer *[]byte) (o objectRecord, err error) {
	kind, payload, err := readRecord(io.NewSectionReader(file, p.at, recordHead+int64(p.size)), buffer)
	if err != nil {
		return o, err
	}
	if kind != recordObject {
		return o, fmt.Errorf("there is a record of kind %q", kind)
	}
	if o, err = parseObject(payload); err != nil {
		return o, err
	}
	if o.ref != sl.ref {
		return o, fmt.Errorf("%s stands there", o.ref)
	}
	return o, nil
}

// Settle lets go of what a checkpoint, which was taken of this state and written to the
// file, holds of it. From then on the file is the state's, which closes it.
func (s *State) Settle(c *Checkpoint, file File) error {
	before := s.file
	s.file = file
	for i := range c.objects {
		o := &c.objects[i]
		if sl := o.slot; sl.packed == o.packed && sl.stored == o.stored && (o.packed != nil || o.stored.there()) {
			s.forget(sl)
			s.store(sl, c.places[i])
		}
	}
	if before == nil {
		return nil
	}
	return before.Close()
}

// store notes where a slot stands in the file.
func (s *State) store(sl *slot, p place) {
	sl.stored = p
	s.onDisk += int(p.size)
}

// InMemory is how many bytes of objects at rest are in no checkpoint.
func (s *State) InMemory() int { return s.inMemory }

// OnDisk is how many bytes of objects at rest are in a checkpoint alone.
func (s *State) OnDisk() int { return s.onDisk }

// Close closes the file that objects at rest are read from.
func (s *State) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
