package peer

import (
	"maps"
	"time"

	"starling.dev/starling/crdt"
)

// syncEvery is the period of anti-entropy with one peer of the view.
const syncEvery = time.Second

// maxFanout bounds how many peers a fresh batch is pushed to by one peer.
const maxFanout = 8

// replicator spreads entries: push at once, anti-entropy by heads each second.
type replicator struct {
	c        *Core
	nextSync time.Time
	// acked holds, per machine, the greatest own entry that it has on its disk.
	acked map[crdt.MachineID]uint64
	// synced: some member was found to hold nothing that is missing here.
	synced bool
}

func newReplicator(c *Core) *replicator {
	return &replicator{c: c, acked: map[crdt.MachineID]uint64{}}
}

// push sends the own batch to peers of the view.
func (r *replicator) push(b crdt.Batch) {
	raw := b.Encode()
	for _, to := range r.fanout(crdt.MachineID{}, r.c.self.ID) {
		r.c.send(to, Push{Batches: [][]byte{raw}, Fresh: true})
	}
}

// fanout draws at most maxFanout connected members, the two named ones left out.
func (r *replicator) fanout(from, origin crdt.MachineID) []crdt.MachineID {
	var ids []crdt.MachineID
	for _, id := range r.c.members.connected() {
		if id != from && id != origin {
			ids = append(ids, id)
		}
	}
	if len(ids) > maxFanout {
		r.c.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		ids = ids[:maxFanout]
	}
	return ids
}

// receivePush takes batches, passes fresh ones on, and acknowledges the rest of
// the turn once it is durable.
func (r *replicator) receivePush(from crdt.MachineID, m Push) {
	heads := crdt.Heads{}
	gap := false
	for _, raw := range m.Batches {
		b, err := crdt.DecodeBatch(raw)
		if err != nil {
			continue
		}
		a, fresh := r.c.journal.accept(b)
		gap = gap || a.Verdict == crdt.Gap || a.Verdict == crdt.Unknown
		if a.Head.Seq > 0 {
			heads[b.Actor] = a.Head
		}
		if fresh && m.Fresh {
			r.relay(from, b, raw)
		}
	}
	if len(heads) > 0 {
		r.c.send(from, Ack{Heads: heads})
	}
	if gap && m.Fresh {
		r.c.send(from, Vector{Heads: r.c.journal.log.Heads()})
	}
}

func (r *replicator) relay(from crdt.MachineID, b crdt.Batch, raw []byte) {
	origin := crdt.MachineID{}
	if pub, ok := r.c.journal.log.Key(b.Actor); ok {
		origin = crdt.MachineIDOf(pub)
	}
	for _, to := range r.fanout(from, origin) {
		r.c.out.Relay = append(r.c.out.Relay, Envelope{to, Push{Batches: [][]byte{raw}, Fresh: true}})
	}
}

// greet starts the exchange with a member that has just become reachable.
func (r *replicator) greet(to crdt.MachineID) {
	r.c.send(to, Digest{Heads: r.c.journal.log.Digest(), Auth: r.c.trust.Digest()})
}

// periodic compares with one random peer, about once a second.
func (r *replicator) periodic() {
	if r.c.now.Before(r.nextSync) {
		return
	}
	jitter := time.Duration(r.c.rand()%200) * time.Millisecond
	r.nextSync = r.c.now.Add(syncEvery - 100*time.Millisecond + jitter)
	ids := r.c.members.connected()
	if len(ids) > 0 {
		r.greet(ids[r.c.rand()%uint64(len(ids))])
	}
}

func (r *replicator) nextWake() time.Time { return r.nextSync }

func (r *replicator) receiveDigest(from crdt.MachineID, m Digest) {
	if m.Auth != r.c.trust.Digest() {
		r.c.send(from, AuthOffer{Heads: r.c.trust.Heads(), Reply: true})
	}
	if m.Heads != r.c.journal.log.Digest() {
		r.c.send(from, Vector{Heads: r.c.journal.log.Heads(), Reply: true})
		return
	}
	r.synced = true
	if own := r.c.journal.actor; !own.IsZero() {
		r.noteAcked(from, crdt.Heads{own: r.c.journal.log.Head(own)})
	}
}

// receiveVector serves what the other lacks, and asks for what is missing here.
func (r *replicator) receiveVector(from crdt.MachineID, m Vector) {
	r.noteAcked(from, m.Heads)
	own := r.c.journal.log.Heads()
	if missing := r.c.journal.log.Missing(m.Heads); len(missing) > 0 {
		r.c.out.Serve = append(r.c.out.Serve, Serve{To: from, Ranges: missing})
	}
	if m.Reply {
		r.c.send(from, Vector{Heads: own})
	}
	if own.Dominates(m.Heads) {
		r.synced = true
	}
}

func (r *replicator) receiveAck(from crdt.MachineID, m Ack) { r.noteAcked(from, m.Heads) }

func (r *replicator) noteAcked(from crdt.MachineID, heads crdt.Heads) {
	own := r.c.journal.actor
	if h, ok := heads[own]; ok && !own.IsZero() && h.Seq > r.acked[from] {
		r.acked[from] = h.Seq
	}
}

// holder returns a machine, other than this one, that has the own entry seq on its
// disk.
func (r *replicator) holder(seq uint64) (crdt.MachineID, bool) {
	var found crdt.MachineID
	ok := false
	for id := range maps.All(r.acked) {
		if r.acked[id] >= seq && (!ok || compareMachines(id, found) < 0) {
			found, ok = id, true
		}
	}
	return found, ok
}
