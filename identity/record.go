package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"

	"starling.dev/starling/crdt"
)

// RecordVersion is the version of the record format that this program writes.
const RecordVersion = 1

// Limits of a record.
const (
	// MaxRecord bounds an encoded record, in bytes.
	MaxRecord = 128 << 10
	// MaxParents bounds the heads that a record may name: one per machine that
	// wrote while the cluster was cut into pieces.
	MaxParents = 1024
	// maxStamp keeps "1 + the greatest parent stamp" from ever overflowing.
	maxStamp = 1 << 62
	maxBody  = MaxRecord
	// maxMillis is the last Unix millisecond that a stamp can hold.
	maxMillis = maxStamp >> 16
)

// signingContext separates record signatures from all others made with a machine's
// key. The cluster's ID follows it, so that a record of one cluster is a forgery in
// another.
const signingContext = "starling authorisation record\x00"

// Record is one signed statement of the authorisation log. It is immutable: it is
// made by [SignRecord] or [ParseRecord] only, and its bytes are kept, relayed and
// checked exactly as they were signed.
type Record struct {
	Kind Kind
	// Issuer is the public key of a machine or of a root. The key itself stands
	// here, not its ID, so that a forgery is known before any parent is.
	Issuer ed25519.PublicKey
	// Parents are the heads of the log that the issuer saw, ascending. Everything
	// that they reach is the record's causal past. The first record has none.
	Parents []crdt.ID
	// Stamp is the issuer's hybrid logical clock (crdt.Change.HLC). It orders names
	// and decides nothing about validity.
	Stamp uint64
	// Body is what is stated; an [Unknown] for kinds of a later program.
	Body Body
	Sig  []byte

	raw []byte
	id  crdt.ID
}

// ID is the SHA-256 of the whole encoding, signature included.
func (r Record) ID() crdt.ID { return r.id }

// IssuerID is the ID of the issuer's key.
func (r Record) IssuerID() crdt.MachineID { return IDOf(r.Issuer) }

// Bytes is the encoding as signed. The caller must not change it.
func (r Record) Bytes() []byte { return r.raw }

// SignRecord makes a record. Parents may come in any order.
func SignRecord(cluster ClusterID, key ed25519.PrivateKey, parents []crdt.ID, stamp uint64, body Body) (Record, error) {
	parents = slices.Clone(parents)
	slices.SortFunc(parents, crdt.ID.Compare)
	parents = slices.Compact(parents)
	e := &encoder{}
	e.byte(RecordVersion)
	e.byte(byte(body.kind()))
	e.fixed(publicOf(key))
	e.uint(uint64(len(parents)))
	for _, p := range parents {
		e.fixed(p[:])
	}
	e.uint(stamp)
	inner := &encoder{}
	body.encode(inner)
	e.bytes(inner.buf)
	e.fixed(ed25519.Sign(key, signed(cluster, e.buf)))
	rec, err := ParseRecord(e.buf)
	if err != nil {
		return Record{}, fmt.Errorf("make %s record: %w", body.kind(), err)
	}
	return rec, nil
}

// ParseRecord reads a record and checks its form, not its signature ([Record.Verify])
// and not its standing (see [Log]). The record keeps its own copy of the bytes.
func ParseRecord(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return Record{}, fmt.Errorf("%w: %d bytes are over the limit of %d", ErrMalformed, len(b), MaxRecord)
	}
	raw := slices.Clone(b)
	rec, err := parseRecord(raw)
	if err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	rec.raw, rec.id = raw, sha256.Sum256(raw)
	return rec, nil
}

func parseRecord(raw []byte) (Record, error) {
	d := &decoder{rest: raw}
	if v := d.byte(); d.err == nil && v != RecordVersion {
		return Record{}, fmt.Errorf("it has version %d, this program knows %d; upgrade it", v, RecordVersion)
	}
	rec := Record{Kind: Kind(d.byte()), Issuer: make([]byte, ed25519.PublicKeySize)}
	d.fixed(rec.Issuer)
	rec.Parents = d.ids(MaxParents)
	rec.Stamp = d.uint(maxStamp)
	body := d.bytes(maxBody)
	rec.Sig = make([]byte, ed25519.SignatureSize)
	d.fixed(rec.Sig)
	if err := d.end(); err != nil {
		return Record{}, err
	}
	var err error
	rec.Body, err = decodeBody(rec.Kind, body)
	return rec, err
}

// ids reads a strictly ascending list, the only canonical order of a set.
func (d *decoder) ids(limit int) []crdt.ID {
	var ids []crdt.ID
	for range d.count(limit) {
		var id crdt.ID
		d.fixed(id[:])
		if d.err == nil && len(ids) > 0 && crdt.ID.Compare(ids[len(ids)-1], id) >= 0 {
			d.fail("record IDs are repeated or out of order")
		}
		if d.err != nil {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// Verify checks the signature for a cluster.
func (r Record) Verify(cluster ClusterID) error {
	content := r.raw[:len(r.raw)-ed25519.SignatureSize]
	if !ed25519.Verify(r.Issuer, signed(cluster, content), r.Sig) {
		return fmt.Errorf("%w: the signature of %s record %s is wrong, or of another cluster", ErrForged, r.Kind, r.id)
	}
	return nil
}

func signed(cluster ClusterID, content []byte) []byte {
	return slices.Concat([]byte(signingContext), cluster[:], content)
}

func compareMachines(a, b crdt.MachineID) int { return bytes.Compare(a[:], b[:]) }
