package rig

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
	"starling.dev/starling/store"
)

// Config says which machine of which cluster a rig is. All but Retention are required.
type Config struct {
	Dir      string
	Machine  int // from 1
	Machines int // of the cluster
	Logger   *slog.Logger
	// Retention of the own log. Optional.
	Retention peer.Retention
}

func (c Config) validate() error {
	if c.Dir == "" || c.Machine < 1 || c.Machine > c.Machines || c.Logger == nil {
		return errors.New("configure a rig: every field is required, and Machine is one of Machines")
	}
	return nil
}

// Rig is one peer.
type Rig struct {
	cfg      Config
	name     string
	Store    *store.Store
	Loop     *peer.Loop
	verifier *peer.Verifier
	log      *identity.Log
	// send is where the loop's frames go; nil: nowhere.
	send func(crdt.MachineID, []byte) error

	cancel context.CancelFunc
	tasks  errgroup.Group
	opened bool
	// Ready is closed when the core has been rebuilt from the disk for the first time.
	Ready chan struct{}
}

// Open opens the directory. Nothing runs before Start.
func Open(cfg Config) (*Rig, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log, err := newLog(cfg.Machines)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(store.Config{Dir: cfg.Dir, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	r := &Rig{
		cfg: cfg, name: MachineName(cfg.Machine), Store: s, log: log, verifier: peer.NewVerifier(crdt.VerifyEd25519),
		Ready: make(chan struct{}),
	}
	r.Loop, err = peer.NewLoop(peer.LoopConfig{
		Open: r.open, Transport: r, Host: newHost(fmt.Sprintf("192.0.2.%d", cfg.Machine)), Verifier: r.verifier, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

// Send is peer.Transport.
func (r *Rig) Send(to crdt.MachineID, frame []byte) error {
	if r.send == nil {
		return nil
	}
	return r.send(to, frame)
}

// open is peer.LoopConfig.Open, as the daemon does it.
func (r *Rig) open(context.Context) (*peer.Core, peer.Disk, error) {
	if r.opened {
		return nil, nil, errors.New("the rig's disk failed; a measurement does not go on")
	}
	r.opened = true
	trust, err := identity.OpenLog(r.log.Genesis(), r.log.Since(0))
	if err != nil {
		return nil, nil, fmt.Errorf("open the authorisation log: %w", err)
	}
	r.verifier.Update(trust.Snapshot())
	kinds, err := peer.Kinds()
	if err != nil {
		return nil, nil, err
	}
	disk := disk{r.Store}
	rec := peer.Recovery{Local: map[string][]byte{}, AuthRecords: trust.Len()}
	locals, err := r.Store.Local("")
	if err != nil {
		return nil, nil, err
	}
	for _, w := range locals {
		rec.Local[w.Key] = w.Value
	}
	rec.Batches = func(yield func(crdt.Batch) error) (crdt.HighWater, error) {
		found, err := r.Store.Recover(yield)
		return found.Own, err
	}
	rec.Checkpoint = r.Store.Checkpoint
	rec.Since = func(heads crdt.Heads, yield func(crdt.Batch) error) (crdt.HighWater, error) {
		found, err := r.Store.RecoverSince(heads, yield)
		return found.Own, err
	}
	key := keyOf(r.name)
	core, err := peer.New(peer.Config{
		Self: peer.Machine{ID: MachineID(r.name), Name: r.name}, PublicKey: key.Public().(ed25519.PublicKey), Sign: crdt.Ed25519Signer(key),
		Trust: trust, Kinds: kinds, Seed: uint64(time.Now().UnixNano()), HashAt: disk.hashAt,
		Stored: disk.ReadRange, Retention: r.cfg.Retention,
	}, rec, time.Now())
	if err != nil {
		return nil, nil, err
	}
	core.Teach(r.verifier)
	close(r.Ready)
	return core, disk, nil
}

// Start runs the loop until Close.
func (r *Rig) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.tasks.Go(func() error { return r.Loop.Run(ctx) })
}

// Go runs something beside the loop until Close.
func (r *Rig) Go(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := r.cancel
	r.cancel = func() { stop(); cancel() }
	r.tasks.Go(func() error { return run(ctx) })
}

// Close stops what runs and closes the store.
func (r *Rig) Close() error {
	if r.cancel != nil {
		r.cancel()
	}
	return errors.Join(r.tasks.Wait(), r.Store.Close())
}

// Digest hashes all heads that the peer has; StateHash hashes all objects.
func (r *Rig) Digest(ctx context.Context) (heads, state crdt.ID, err error) {
	err = r.Loop.Query(ctx, func(c *peer.Core) { heads, state = c.Digest().Heads, c.StateHash() })
	return heads, state, err
}

// disk is the store as the loop uses it.
type disk struct{ store *store.Store }

func (d disk) Commit(c crdt.Commit) error { return d.store.Commit(c) }

func (d disk) SaveCheckpoint(size int64, write func(io.Writer) error) (crdt.File, error) {
	return d.store.SaveCheckpoint(size, write)
}

func (d disk) ReadRange(r crdt.Range, maxBytes int) ([][]byte, error) {
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

func (d disk) hashAt(actor crdt.ActorID, seq uint64) (crdt.ID, bool) {
	batches, err := d.store.Batches(actor, seq, 1)
	if err != nil || len(batches) == 0 || batches[0].First > seq || batches[0].Last() < seq {
		return crdt.ID{}, false
	}
	return batches[0].Hashes()[seq-batches[0].First], true
}
