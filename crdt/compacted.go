package crdt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// A log shrinks by compaction: of an entry that no longer counts a stub stays, which is the
// ID of the change that it held. A log with stubs has the same hashes and the same
// signatures as before. Who holds only the stub has to know that nothing was kept from it, so
// the machine states which entries of its log are compacted ([Compacted]). Law: a covered entry
// counts at no replica, whether that holds its content or not; so the state follows from
// the entries and the statements, whoever compacted what.

// A stub is this byte, which no encoded change begins with, and the ID.
const (
	stubTag = 0
	stubLen = 1 + len(ID{})
)

// StubOf returns what stays of an entry that was compacted.
func StubOf(change ID) []byte { return append([]byte{stubTag}, change[:]...) }

// IsStub reports whether only the ID is left of an entry.
func IsStub(raw []byte) bool { return len(raw) == stubLen && raw[0] == stubTag }

// Stubs reports whether content is missing in any entry of the batch.
func (b Batch) Stubs() bool {
	for _, c := range b.Changes {
		if IsStub(c) {
			return true
		}
	}
	return false
}

// Compacted is a machine's statement about one of its logs: the entries in Seqs count for
// nothing. All such statements about a log hold together.
type Compacted struct {
	// PublicKey and Nonce are those of the actor's birth, from which its ID follows: the
	// statement may be read before the log.
	PublicKey []byte
	Nonce     uint64
	Seqs      Seqs
	// Presumes is what was covered of other logs when this was stated, by actor. Who does not
	// know as much does not believe it yet: what is covered may be what ended an
	// incarnation whose creation still counts there.
	Presumes []Presumed
	Sig      []byte
}

// Presumed says how many entries of a log are covered at least.
type Presumed struct {
	Actor ActorID
	Count uint64
}

const domainCompacted = "starling compacted\x00"

// Actor is whose log it is.
func (c Compacted) Actor() ActorID { return NewActorID(c.PublicKey, c.Nonce) }

// versionPresumes is the version of statements that presume others.
const versionPresumes = version + 1

func (c Compacted) body() []byte {
	v := byte(version)
	if len(c.Presumes) > 0 {
		v = versionPresumes
	}
	b := appendString([]byte{v}, string(c.PublicKey))
	b = c.Seqs.AppendTo(binary.BigEndian.AppendUint64(b, c.Nonce))
	if v == versionPresumes {
		b = binary.AppendUvarint(b, uint64(len(c.Presumes)))
		for _, p := range c.Presumes {
			b = binary.AppendUvarint(append(b, p.Actor[:]...), p.Count)
		}
	}
	return b
}

// presumes reads what a statement presumes: at least one log, sorted by actor.
func (r *reader) presumes() (all []Presumed) {
	for range r.uvarint(maxSpans, "presumed logs") {
		p := Presumed{r.actor("presumed actor"), r.uvarint(maxSeq, "presumed entries")}
		if p.Count == 0 || len(all) > 0 && all[len(all)-1].Actor.Compare(p.Actor) >= 0 {
			r.fail("presumed logs", "are empty or not in order")
		}
		if r.err != nil {
			return nil
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		r.fail("presumed logs", "are missing")
	}
	return all
}

func (c Compacted) signingBytes() []byte {
	h := sha256.Sum256(c.body())
	return append([]byte(domainCompacted), h[:]...)
}

// SignCompacted returns the statement with its signature.
func SignCompacted(c Compacted, sign Signer) Compacted {
	c.Sig = sign(c.signingBytes())
	return c
}

// Verify checks the signature.
func (c Compacted) Verify(verify Verifier) error {
	if !verify(ed25519.PublicKey(c.PublicKey), c.signingBytes(), c.Sig) {
		return fmt.Errorf("verify what is compacted of actor %s: %w", c.Actor(), ErrBadSignature)
	}
	return nil
}

// Encode returns the form that is stored and sent.
func (c Compacted) Encode() []byte { return appendString(c.body(), string(c.Sig)) }

// DecodeCompacted reads what [Compacted.Encode] wrote. It does not check the signature.
func DecodeCompacted(b []byte) (Compacted, error) {
	r := &reader{}
	if len(b) > MaxBatch {
		r.fail("the statement", "is too large")
		return Compacted{}, r.end("statement of what is compacted")
	}
	r.rest = string(b)
	v := r.byte("version")
	if v != version && v != versionPresumes {
		r.fail("the version", "is unknown")
	}
	c := Compacted{PublicKey: []byte(r.bytes(ed25519.PublicKeySize, "public key"))}
	if len(c.PublicKey) != ed25519.PublicKeySize {
		r.fail("public key", "is not of 32 bytes")
	}
	c.Nonce = r.uint64("nonce")
	if c.Seqs = r.seqs(); len(c.Seqs) == 0 {
		r.fail("the statement", "covers nothing")
	}
	if v == versionPresumes {
		c.Presumes = r.presumes()
	}
	c.Sig = []byte(r.bytes(MaxSig, "signature"))
	if err := r.end("statement of what is compacted"); err != nil {
		return Compacted{}, err
	}
	return c, nil
}

// Superseded reports whether the state is the same without a change that it has folded: a
// result that lost, of the owner of its step. Such a change never counts again while what won
// stays, however that is judged later, since a winner is chosen before it is judged.
func (s *State) Superseded(c Change, id ID) bool {
	sh := shapeOf(&c)
	if s.room.holds(id) || c.Level > s.level || sh.malformed != "" || !sh.result {
		return false
	}
	sl := s.at(c.Object)
	if sl == nil {
		return false
	}
	defer s.trim()
	line, gen := sl.incarnation(c.Incarnation)
	if line == nil || line.root().refused != "" || s.trespass(&c, line.root().author) != "" {
		return false
	}
	o := line.gens[gen]
	for i := range c.Ops {
		op := &c.Ops[i]
		at, found := o.result(op.Path)
		if !found || o.results[at].change == id {
			return false
		}
		if lost := compareResults(o.id, stepResult{step: op.Path, body: op.Register.encoded(), stamp: c.HLC, change: id}, o.results[at]); lost >= 0 {
			return false
		}
	}
	return true
}
