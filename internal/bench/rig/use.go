package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/peer"
)

// Name is the name of the n-th object that [Rig.Fill] writes.
func Name(n int) string { return fmt.Sprintf("allow-%06d", n) }

// Fill writes so many objects that have no lifecycle to speak of.
func (r *Rig) Fill(ctx context.Context, objects int) error {
	edits := make([]peer.Edit, 0, objects)
	for i := range objects {
		edits = append(edits, peer.Edit{
			Kind: peer.EditApply, Key: api.Key{Kind: "Allow", Namespace: "default", Name: Name(i)},
			Fields: api.Fields{"spec.to.labels.app": `"web"`},
		})
	}
	a, err := r.Loop.Write(ctx, peer.Write{Author: "user:alice", Edits: edits})
	if err := errors.Join(err, orNil(a.Err)); err != nil {
		return fmt.Errorf("write %d objects: %w", objects, err)
	}
	return nil
}

// Stored counts the bytes that the log takes in the store: of each batch its key and
// the checksum of its one part beside its encoding.
func (r *Rig) Stored() (bytes int, err error) {
	heads, err := r.Heads(context.Background())
	if err != nil {
		return 0, err
	}
	const keyAndChecksum = 1 + 16 + 8 + 2 + 6
	for actor, head := range heads {
		for from := uint64(1); from <= head.Seq; {
			batches, err := r.Store.Batches(actor, from, 1<<20)
			if err != nil || len(batches) == 0 {
				return 0, errors.Join(err, errors.New("the log is not whole"))
			}
			for _, b := range batches {
				bytes += len(b.Encode()) + keyAndChecksum
				from = b.Last() + 1
			}
		}
	}
	return bytes, nil
}

// Rested waits until nothing was written for a while, and returns what the store holds then:
// what the machine itself has to say at its start is over.
func (r *Rig) Rested(ctx context.Context) (bytes int, err error) {
	const while = 500 * time.Millisecond
	for last := -1; ; last = bytes {
		if bytes, err = r.Stored(); err != nil || bytes == last {
			return bytes, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(while):
		}
	}
}

// Heads are those of the rig's log.
func (r *Rig) Heads(ctx context.Context) (heads crdt.Heads, err error) {
	err = r.Loop.Query(ctx, func(c *peer.Core) { heads = c.Heads() })
	return heads, err
}

// Connect runs the rig's streams and keeps connections to all others of the book.
func (r *Rig) Connect(book map[crdt.MachineID]*gossip.Transport) {
	self := MachineID(r.name)
	t := book[self]
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(book)), func(id crdt.MachineID) bool { return id == self })
	r.Go(t.Run)
	t.SetPeers(ids)
}

// unfinished counts what is still to be looked at, or done.
func unfinished(figures map[string]int64) int64 {
	return figures["actions"] + figures["unseen"] + figures["queued"]
}

// AtRest tells the rig that all other machines are there, and waits until every object was
// looked at and no action runs any more.
func (r *Rig) AtRest(ctx context.Context) error {
	for n := 1; n <= r.cfg.Machines; n++ {
		r.Loop.Post(ctx, peer.Membership{Machine: MachineID(MachineName(n)), Alive: true})
	}
	for {
		pending := int64(0)
		err := r.Loop.Query(ctx, func(c *peer.Core) { pending = unfinished(c.Figures()) })
		if err != nil || pending == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
