package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"starling.dev/starling/crdt"
)

// mark is what the high-water file and the record of the last commit agree about.
type mark struct {
	commit uint64 // number of the commit, counted from 1
	own    crdt.HighWater
}

const (
	markMagic = "SHW1"
	markLen   = 4 + 8 + actorLen + 8 + len(crdt.ID{}) + 4
	// slotSize keeps the slots in different blocks, so that writing one can never
	// tear the other.
	slotSize = 4096
)

// highWater is a file with two slots that are written in turn, each with its own
// checksum: a write that is torn by a crash leaves the slot before it whole. The
// file never changes its size, so that writing it can't meet a full disk.
type highWater struct {
	file *os.File
	// under receives the result of the sync that is under way; nil for none.
	under chan error
}

// openHighWater opens the file, or makes it. found is the newest mark in a
// sound slot; missing tells that the file was not there or had no sound slot.
func openHighWater(path string) (h *highWater, found mark, missing bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = writeFileAtomic(path, freshSlots()); err == nil {
			missing = true
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
	if err != nil {
		return nil, mark{}, false, fmt.Errorf("open high-water file: %w", err)
	}
	slots := make([]byte, 2*slotSize)
	if _, err := f.ReadAt(slots, 0); err != nil {
		// A file that was cut short has no sound slot; it is whole again after two writes.
		return &highWater{file: f}, mark{}, true, f.Truncate(2 * slotSize)
	}
	found, sound := newestMark(slots)
	return &highWater{file: f}, found, missing || !sound, nil
}

func freshSlots() []byte {
	slots := make([]byte, 2*slotSize)
	copy(slots, mark{}.marshal())
	return slots
}

func newestMark(slots []byte) (newest mark, sound bool) {
	for off := 0; off < len(slots); off += slotSize {
		m, ok := parseMark(slots[off : off+markLen])
		if ok && (!sound || m.commit > newest.commit) {
			newest, sound = m, true
		}
	}
	return newest, sound
}

// write makes m durable in the slot that does not hold the mark before it.
func (h *highWater) write(m mark) error {
	return errors.Join(h.begin(m), h.settle())
}

// begin writes m and returns while it is made durable: [highWater.settle] waits for that.
func (h *highWater) begin(m mark) error {
	if err := h.settle(); err != nil {
		return err
	}
	if _, err := h.file.WriteAt(m.marshal(), int64(m.commit%2)*slotSize); err != nil {
		return fmt.Errorf("write high-water file: %w", err)
	}
	under := make(chan error, 1) // one result, which waits for who settles
	h.under = under
	go func() { under <- h.sync() }()
	return nil
}

func (h *highWater) sync() error {
	if err := unix.Fdatasync(int(h.file.Fd())); err != nil {
		return fmt.Errorf("sync high-water file: %w", err)
	}
	return nil
}

// settle waits until what was begun is durable.
func (h *highWater) settle() error {
	if h.under == nil {
		return nil
	}
	err := <-h.under
	h.under = nil
	return err
}

func (h *highWater) close() error { return errors.Join(h.settle(), h.file.Close()) }

func (m mark) marshal() []byte {
	b := make([]byte, 0, markLen)
	b = append(b, markMagic...)
	b = binary.BigEndian.AppendUint64(b, m.commit)
	b = append(b, m.own.Actor[:]...)
	b = binary.BigEndian.AppendUint64(b, m.own.Head.Seq)
	b = append(b, m.own.Head.Hash[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func parseMark(b []byte) (m mark, ok bool) {
	if len(b) < markLen || !bytes.HasPrefix(b, []byte(markMagic)) {
		return mark{}, false
	}
	body, sum := b[:markLen-4], b[markLen-4:markLen]
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(sum) {
		return mark{}, false
	}
	m.commit = binary.BigEndian.Uint64(b[4:])
	b = b[12:]
	b = b[copy(m.own.Actor[:], b):]
	m.own.Head.Seq = binary.BigEndian.Uint64(b)
	copy(m.own.Head.Hash[:], b[8:])
	return m, true
}
