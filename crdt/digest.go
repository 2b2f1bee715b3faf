package crdt

import (
	"crypto/sha256"
	"encoding/binary"
)

// This file hashes all that is known of a name. Of an object the hash is made of hashes of
// its parts, which are kept from one time to the next: nearly every change is of one result.

// hashedResults are the hashes of results, in their order.
type hashedResults struct {
	results []stepResult
	hashes  []ID
}

// digest hashes the incarnations and the refusals; zero for a name that nothing is
// known of. It works in the memory given, and returns what that has grown to.
func (sl *slot) digest(scratch []byte) (ID, []byte) {
	objects, refused := sl.incarnations(), sl.refused()
	if len(objects) == 0 && len(refused) == 0 {
		return ID{}, scratch
	}
	b := make([]byte, 0, 256) // of one object it stays on the stack
	b = appendString(appendString(appendString(b, sl.ref.Kind), sl.ref.Namespace), sl.ref.Name)
	b = binary.AppendUvarint(b, uint64(len(objects)))
	for _, o := range objects {
		var d ID
		d, scratch = o.digest(scratch)
		b = append(b, d[:]...)
	}
	for _, r := range refused {
		b = append(b, r.Change[:]...)
		b = appendString(b, r.Reason)
	}
	return sha256.Sum256(b), scratch
}

// digest hashes all that the object is, at any replica.
func (o *Object) digest(scratch []byte) (ID, []byte) {
	if o.specHash == nil {
		scratch = o.encodeSpec(scratch[:0])
		hash := ID(sha256.Sum256(scratch))
		o.specHash = &hash
	}
	scratch = o.hashResults(scratch)
	b := append(scratch[:0], o.id[:]...)
	b = append(b, bit(o.deleted)|bit(o.empty)<<1|bit(o.holds)<<2)
	b = append(b, o.specHash[:]...)
	b = binary.AppendUvarint(b, uint64(len(o.results)))
	for i := range o.hashed.hashes {
		b = append(b, o.hashed.hashes[i][:]...)
	}
	for _, l := range o.losers {
		b = append(b, l.ID[:]...)
	}
	return sha256.Sum256(b), b
}

// encodeSpec appends the changes of the fields, what they come to, and the heads.
func (o *Object) encodeSpec(b []byte) []byte {
	for _, n := range o.nodes {
		b = append(b, n.id[:]...)
		b = binary.BigEndian.AppendUint64(b, n.stamp)
		b = binary.AppendUvarint(b, n.number)
		b = appendString(b, n.refused)
	}
	b = append(b, '|')
	for i := range o.cells {
		c := &o.cells[i]
		b = appendString(appendString(b, c.path), c.value)
		b = append(b, c.node.id[:]...)
	}
	b = append(b, '|')
	for _, h := range o.heads {
		b = append(b, h.id[:]...)
	}
	return b
}

// hashResults brings the hashes of the results up to date.
func (o *Object) hashResults(scratch []byte) []byte {
	old := o.hashed
	if old == nil {
		old = &hashedResults{}
	}
	next := &hashedResults{results: o.results, hashes: make([]ID, len(o.results))}
	at := 0
	for i := range o.results {
		g := &o.results[i]
		for at < len(old.results) && old.results[at].step < g.step {
			at++
		}
		if at < len(old.results) && old.results[at] == *g {
			next.hashes[i] = old.hashes[at]
			continue
		}
		scratch = appendString(appendString(scratch[:0], g.step), g.body)
		scratch = append(scratch, g.change[:]...)
		scratch = appendString(scratch, g.refused)
		next.hashes[i] = sha256.Sum256(scratch)
	}
	o.hashed = next
	return scratch
}
