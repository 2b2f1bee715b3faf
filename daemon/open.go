package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
	"starling.dev/starling/store"
)

// opener rebuilds the core from the disk: at the start, and after a failed commit.
type opener struct {
	home     *home
	verifier *peer.Verifier
	opened   bool
	swept    *atomic.Bool
}

// open is peer.LoopConfig.Open.
func (o *opener) open(context.Context) (*peer.Core, peer.Disk, error) {
	if o.opened {
		if err := o.home.reopen(); err != nil {
			return nil, nil, err
		}
	}
	o.opened = true
	log, err := o.home.readLog(o.home.log.Genesis())
	if err != nil {
		return nil, nil, err
	}
	o.verifier.Update(log.Snapshot())
	kinds, err := peer.Kinds()
	if err != nil {
		return nil, nil, err
	}
	name, err := o.home.name()
	if err != nil {
		return nil, nil, err
	}
	disk := &disk{store: o.home.store}
	rec := peer.Recovery{Local: map[string][]byte{}, AuthRecords: log.Len(), Unswept: !o.swept.Load()}
	if err := o.readLocal(&rec); err != nil {
		return nil, nil, err
	}
	var recovered store.Recovery
	rec.Batches = func(yield func(crdt.Batch) error) (crdt.HighWater, error) {
		recovered, err = o.home.store.Recover(yield)
		return recovered.Own, err
	}
	rec.Checkpoint = o.home.store.Checkpoint
	rec.Since = func(heads crdt.Heads, yield func(crdt.Batch) error) (crdt.HighWater, error) {
		recovered, err = o.home.store.RecoverSince(heads, yield)
		return recovered.Own, err
	}
	rec.Sound = func() bool { return recovered.Sound() }
	core, err := peer.New(peer.Config{
		Self: peer.Machine{ID: o.home.id(), Name: name}, PublicKey: o.home.public(), Sign: crdt.Ed25519Signer(o.home.key), Key: o.home.key,
		Trust: log, Kinds: kinds, Seed: seed(), HashAt: disk.hashAt,
		Stored: disk.ReadRange, Retention: peer.Retention{Budget: o.home.cfg.LogBudget},
	}, rec, o.home.cfg.now())
	if err != nil {
		return nil, nil, err
	}
	core.Teach(o.verifier)
	o.report(recovered)
	return core, disk, nil
}

// readLocal reads the private key space.
func (o *opener) readLocal(rec *peer.Recovery) error {
	writes, err := o.home.store.Local("")
	if err != nil {
		return err
	}
	for _, w := range writes {
		rec.Local[w.Key] = w.Value
	}
	return nil
}

// report says what the disk lost. Entries that others hold come back from them.
func (o *opener) report(r store.Recovery) {
	if r.Sound() {
		return
	}
	o.home.cfg.Logger.Warn("the log on disk is not whole; what is missing is fetched from the other machines",
		"verdict", r.Verdict.String(), "damaged", len(r.Damaged), "gaps", len(r.Gaps))
}

func seed() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("the system has no random bytes: %v", err))
	}
	return binary.BigEndian.Uint64(b[:])
}

// disk is the store as the loop uses it.
type disk struct{ store *store.Store }

func (d *disk) Commit(c crdt.Commit) error {
	err := d.store.Commit(c)
	if errors.Is(err, store.ErrDiskFull) {
		return api.Errorf(api.DiskFull, "%w", err)
	}
	return err
}

// SaveCheckpoint is peer.Checkpoints.
func (d *disk) SaveCheckpoint(size int64, write func(io.Writer) error) (crdt.File, error) {
	return d.store.SaveCheckpoint(size, write)
}

// ReadRange returns encoded batches from the start of a range.
func (d *disk) ReadRange(r crdt.Range, maxBytes int) ([][]byte, error) {
	batches, err := d.store.Batches(r.Actor, r.From, maxBytes)
	if err != nil {
		return nil, err
	}
	var raw [][]byte
	for _, b := range batches {
		if b.First > r.To {
			break
		}
		raw = append(raw, b.Encode())
	}
	return raw, nil
}

// hashAt finds the hash of one stored entry.
func (d *disk) hashAt(actor crdt.ActorID, seq uint64) (crdt.ID, bool) {
	batches, err := d.store.Batches(actor, seq, 1)
	if err != nil || len(batches) == 0 || batches[0].First > seq || batches[0].Last() < seq {
		return crdt.ID{}, false
	}
	return batches[0].Hashes()[seq-batches[0].First], true
}
