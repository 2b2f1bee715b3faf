package peer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// Verifier checks the signatures of what other members send, outside the core and in
// parallel. It is safe for concurrent use.
type Verifier struct {
	check crdt.Verifier

	mu       sync.RWMutex // guards what follows
	keys     map[crdt.ActorID]ed25519.PublicKey
	snapshot *identity.Snapshot
}

// NewVerifier returns a verifier that trusts nobody until it is told of members.
func NewVerifier(check crdt.Verifier) *Verifier {
	return &Verifier{check: check, keys: map[crdt.ActorID]ed25519.PublicKey{}}
}

// Update tells the verifier who belongs to the cluster.
func (v *Verifier) Update(s *identity.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.snapshot = s
}

// Snapshot is the authorisation log's present meaning; nil before the first Update.
func (v *Verifier) Snapshot() *identity.Snapshot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.snapshot
}

// Learn notes the key of an actor that is on this peer's own disk.
func (v *Verifier) Learn(b crdt.Batch) {
	if b.Birth != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.keys[b.Actor] = b.Birth.PublicKey
	}
}

// errStranger is why a batch is not taken for now: it comes again by anti-entropy,
// once its machine's admission has arrived.
var errStranger = errors.New("the actor or its machine is not known here yet")

// Message checks a message and drops what does not hold: every replica drops the
// same. What is left may be handed to the core.
func (v *Verifier) Message(m Message) (Message, error) {
	if said, ok := m.(CompactedLogs); ok {
		return v.compacted(said)
	}
	push, ok := m.(Push)
	if !ok {
		return m, nil
	}
	read := v.readAll(push.Batches)
	push.checked, push.Batches = make([]received, 0, len(read)), make([][]byte, 0, len(read))
	var bad error
	for i := range read {
		if in := &read[i]; in.fault != nil {
			bad = in.fault
		} else {
			push.checked, push.Batches = append(push.checked, in.received), append(push.Batches, in.raw)
		}
	}
	return push, bad
}

// compacted checks statements of what is compacted. A machine's statement about its own log
// counts even when it was removed: refusing it by arrival would leave two states.
func (v *Verifier) compacted(m CompactedLogs) (Message, error) {
	snapshot := v.Snapshot()
	kept := make([][]byte, 0, len(m.Statements))
	var bad error
	for _, raw := range m.Statements {
		st, err := crdt.DecodeCompacted(raw)
		if err == nil {
			err = st.Verify(v.check)
		}
		if err == nil && snapshot == nil {
			err = errStranger
		} else if err == nil {
			if _, ok := snapshot.ByKey(st.PublicKey); !ok {
				err = errStranger
			}
		}
		if err != nil {
			bad = err
			continue
		}
		kept = append(kept, raw)
	}
	m.Statements = kept
	return m, bad
}

// judged is a batch that was read and checked, or why it is not taken.
type judged struct {
	received
	fault error
}

// readAll reads and checks batches, many of them at once where there are many: a peer that
// was away gets thousands over one stream.
func (v *Verifier) readAll(raw [][]byte) []judged {
	read := make([]judged, len(raw))
	share(len(raw), func(i int) { read[i].received, read[i].fault = readBatch(raw[i]) })
	born := map[crdt.ActorID]ed25519.PublicKey{}
	for i := range read {
		if b := &read[i].batch; b.Birth != nil && b.Birth.ActorID() == b.Actor {
			born[b.Actor] = b.Birth.PublicKey // an actor's name is made of its key
		}
	}
	share(len(raw), func(i int) {
		if in := &read[i]; in.fault == nil {
			in.fault = v.verify(in.batch, born)
		}
	})
	return read
}

// shareFrom is how many batches are worth another goroutine.
const shareFrom = 16

// share does something for each of n, on as many cores as there are.
func share(n int, do func(int)) {
	workers := min(n/shareFrom, runtime.GOMAXPROCS(0))
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

// received is a batch of another member, read once for all who look into it.
type received struct {
	raw     []byte
	batch   crdt.Batch
	changes []decoded
}

// decoded is a change and its ID. One that can't be read is stored and relayed, never
// folded.
type decoded struct {
	crdt.Change
	id       crdt.ID
	readable bool
}

func readBatch(raw []byte) (in received, err error) {
	in.raw = raw
	if in.batch, err = crdt.DecodeBatch(raw); err != nil {
		return in, fmt.Errorf("decode batch: %w", err)
	}
	in.changes = readChanges(in.batch)
	return in, nil
}

// readChanges reads the changes of a batch. Whose log it is, the log tells.
func readChanges(b crdt.Batch) []decoded {
	changes := make([]decoded, len(b.Changes))
	ids, hashes := b.Names()
	for i, raw := range b.Changes {
		ch := &changes[i]
		if !crdt.IsStub(raw) {
			var err error
			ch.Change, err = crdt.DecodeChange(raw)
			ch.readable = err == nil
		}
		ch.At = crdt.Place{Actor: b.Actor, Head: crdt.Head{Seq: b.First + uint64(i), Hash: hashes[i]}}
		ch.id = ids[i]
	}
	return changes
}

// entries are the batches of a push, read by the verifier or, in a message that it has not
// seen, now.
func (m Push) entries() []received {
	if m.checked != nil {
		return m.checked
	}
	var list []received
	for _, raw := range m.Batches {
		if in, err := readBatch(raw); err == nil {
			list = append(list, in)
		}
	}
	return list
}

// verify checks a batch's signature and learns its actor's key.
func (v *Verifier) verify(b crdt.Batch, born map[crdt.ActorID]ed25519.PublicKey) error {
	key, err := v.key(b, born)
	if err != nil {
		return err
	}
	if err := b.Verify(v.check, key); err != nil {
		return fmt.Errorf("batch %d of actor %s: %w", b.First, b.Actor, err)
	}
	v.Learn(b)
	return nil
}

// key finds the actor's key, which an earlier batch of the message may name, and checks that
// its machine was ever admitted.
func (v *Verifier) key(b crdt.Batch, born map[crdt.ActorID]ed25519.PublicKey) (ed25519.PublicKey, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	key := v.keys[b.Actor]
	switch {
	case b.Birth != nil:
		key = b.Birth.PublicKey
	case key == nil:
		key = born[b.Actor]
	}
	if key == nil || v.snapshot == nil {
		return nil, errStranger
	}
	if _, ok := v.snapshot.ByKey(key); !ok {
		return nil, errStranger
	}
	return key, nil
}
