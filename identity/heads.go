package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"maps"
	"slices"

	"starling.dev/starling/crdt"
)

// maxMissing bounds one answer of Missing, in bytes.
const maxMissing = 1 << 20

// Heads are the records that no other names as a parent, ascending. They stand for
// the whole log.
func (l *Log) Heads() []crdt.ID {
	return slices.SortedFunc(maps.Keys(l.heads), crdt.ID.Compare)
}

// Seen are the heads for a change that a machine signs (crdt.Change.Auth): all of
// them, as long as a change may name that many.
func (l *Log) Seen(signer crdt.MachineID) []crdt.ID { return l.pick(signer, crdt.MaxParents) }

// pick returns at most limit heads, ascending. Where there are more (hardly ever: each
// is a piece of a cluster that was cut, or someone's mischief), those come first that
// show the issuer's admission, since nothing counts without it.
func (l *Log) pick(issuer crdt.MachineID, limit int) []crdt.ID {
	heads := l.Heads()
	if len(heads) <= limit {
		return heads
	}
	shows := func(h crdt.ID) bool {
		nd, i := l.nodes[l.index[h]], l.index[h]
		return slices.ContainsFunc(l.admits[issuer], func(a int) bool { return a == i || nd.past.has(a) })
	}
	slices.SortStableFunc(heads, func(a, b crdt.ID) int {
		switch x, y := shows(a), shows(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	heads = heads[:limit]
	slices.SortFunc(heads, crdt.ID.Compare)
	return heads
}

// Digest is equal for two logs exactly if they hold the same records.
func (l *Log) Digest() crdt.ID { return digest(l.id, l.Heads()) }

func digest(cluster ClusterID, heads []crdt.ID) crdt.ID {
	e := &encoder{}
	e.fixed(cluster[:])
	for _, h := range heads {
		e.fixed(h[:])
	}
	return sha256.Sum256(e.buf)
}

// Missing returns what a peer with the given heads lacks, parents before children: at
// most limit records and about a megabyte. Heads unknown here are passed over: the
// peer is ahead there. A peer that was sent a part asks again with its new heads.
func (l *Log) Missing(heads []crdt.ID, limit int) [][]byte {
	var pasts []past
	var points []int
	for _, h := range heads {
		if i, ok := l.index[h]; ok {
			pasts = append(pasts, l.nodes[i].past)
			points = append(points, i)
		}
	}
	theirs := union(pasts, points)
	var out [][]byte
	size := 0
	for i, nd := range l.nodes {
		if theirs.has(i) {
			continue
		}
		size += len(nd.rec.raw)
		if len(out) == limit || size > maxMissing && len(out) > 0 {
			break
		}
		out = append(out, nd.rec.raw)
	}
	return out
}

// Sign makes a record on top of what the log holds. The clock is a hybrid logical
// clock's reading (Unix milliseconds << 16). The record is not added.
func (l *Log) Sign(key ed25519.PrivateKey, clock uint64, body Body) (Record, error) {
	parents := l.pick(IDOf(publicOf(key)), MaxParents)
	for _, p := range parents {
		clock = max(clock, l.nodes[l.index[p]].stamp+1)
	}
	return SignRecord(l.id, key, parents, clock, body)
}
