package peer

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/crdt"
)

// forkPrefix begins the keys of proofs against actors.
const forkPrefix = "fork/"

// fork proves that an actor signed two histories: Batch contradicts the log from the entry
// Seq on, and Other is the batch that the log held there. Both are kept, since a log can
// rot, and half a proof convinces nobody who holds the same half.
type fork struct {
	Seq   uint64
	Batch []byte
	Other []byte `json:",omitempty"` // absent if the log could not be read
}

// convict keeps the proof that an actor signed two histories, passes it on, and has the
// core built anew without what came after the fork.
func (j *journal) convict(b crdt.Batch, a crdt.Accepted) {
	raw := b.Encode()
	proof, err := json.Marshal(fork{Seq: a.From, Batch: raw, Other: j.stored(b.Actor, a.From)})
	if err != nil {
		panic(fmt.Sprintf("a proof is plain data: %v", err))
	}
	j.c.put(forkPrefix+hex.EncodeToString(b.Actor[:]), proof)
	j.c.out.Rebuild = true
	for _, to := range j.c.members.connected() {
		j.c.send(to, Push{Batches: [][]byte{raw}, Fresh: true})
	}
}

// stored returns the batch on the disk that holds an entry; nil if it can't be read.
func (j *journal) stored(actor crdt.ActorID, seq uint64) []byte {
	raws, err := j.c.cfg.Stored(crdt.Range{Actor: actor, From: seq, To: seq}, 1)
	if err != nil || len(raws) == 0 {
		return nil
	}
	return raws[0]
}

// loadForks refuses the actors that were convicted before.
func (j *journal) loadForks(local map[string][]byte) error {
	for _, key := range sortedKeys(local) {
		if !strings.HasPrefix(key, forkPrefix) {
			continue
		}
		f, err := readFork(local[key])
		if err != nil {
			return fmt.Errorf("read %q: %w", key, err)
		}
		j.log.Convict(f)
	}
	return nil
}

func readFork(raw []byte) (crdt.Fork, error) {
	var kept fork
	if err := json.Unmarshal(raw, &kept); err != nil {
		return crdt.Fork{}, err
	}
	b, err := crdt.DecodeBatch(kept.Batch)
	if err != nil {
		return crdt.Fork{}, err
	}
	f := crdt.Fork{Actor: b.Actor, Seq: kept.Seq, Batch: b}
	if len(kept.Other) > 0 {
		f.Other, err = crdt.DecodeBatch(kept.Other)
	}
	return f, err
}

// prove shows a peer that still holds what is refused here both histories that the actor
// signed. A proof that was lost on its way would else leave two states for good.
func (r *replicator) prove(to crdt.MachineID, theirs crdt.Heads) {
	for _, f := range r.c.journal.log.Forks() {
		if theirs[f.Actor].Seq < f.Seq {
			continue
		}
		r.c.send(to, Push{Batches: [][]byte{f.Batch.Encode()}})
		if len(f.Other.Changes) > 0 {
			r.c.send(to, Push{Batches: [][]byte{f.Other.Encode()}})
		} else {
			r.serve(to, []crdt.Range{{Actor: f.Actor, From: f.Seq, To: f.Seq}}, true)
		}
	}
}

// confront asks for the other's last entry where the heads differ in nothing but the hash:
// then the actor signed two histories, and the two logs together prove it.
func (r *replicator) confront(from crdt.MachineID, theirs crdt.Heads) {
	var ranges []crdt.Range
	for actor, head := range theirs {
		if own := r.c.journal.log.Head(actor); own.Seq == head.Seq && own.Hash != head.Hash {
			ranges = append(ranges, crdt.Range{Actor: actor, From: head.Seq, To: head.Seq})
		}
	}
	if len(ranges) > 0 {
		slices.SortFunc(ranges, func(a, b crdt.Range) int { return a.Actor.Compare(b.Actor) })
		r.c.send(from, Pull{Ranges: ranges[:min(len(ranges), maxRanges)]})
	}
}
