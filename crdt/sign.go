package crdt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// What is signed begins with what it is, so that a signature over one thing can't
// be passed off as a signature over another.
const (
	domainChange  = "starling change\x00"
	domainBatch   = "starling batch\x00"
	domainEntry   = "starling entry\x00"
	domainBirth   = "starling birth\x00"
	domainRevival = "starling revival\x00"
)

// ErrBadSignature is wrapped when a signature does not match its key.
var ErrBadSignature = errors.New("the signature does not match")

// Signer signs a message with a machine's key. Simulations inject a cheap one.
type Signer func(msg []byte) []byte

// Verifier checks a signature against a machine's public key.
type Verifier func(pub ed25519.PublicKey, msg, sig []byte) bool

// Ed25519Signer signs with priv.
func Ed25519Signer(priv ed25519.PrivateKey) Signer {
	return func(msg []byte) []byte { return ed25519.Sign(priv, msg) }
}

// VerifyEd25519 is the [Verifier] of production. Unlike ed25519.Verify it does not
// panic on a key of the wrong length.
func VerifyEd25519(pub ed25519.PublicKey, msg, sig []byte) bool {
	return len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, msg, sig)
}

// Compare orders IDs as byte strings.
func (id ID) Compare(o ID) int { return bytes.Compare(id[:], o[:]) }

// Compare orders actors as byte strings.
func (id ActorID) Compare(o ActorID) int { return bytes.Compare(id[:], o[:]) }

// MachineIDOf names the machine that holds the private part of pub.
func MachineIDOf(pub ed25519.PublicKey) (id MachineID) {
	h := sha256.Sum256(pub)
	copy(id[:], h[:])
	return id
}

// NewActorID names one life of the store of the machine that holds pub. The nonce
// is drawn anew whenever a store starts to write.
func NewActorID(pub ed25519.PublicKey, nonce uint64) (id ActorID) {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(bytes.Clone(pub), nonce))
	copy(id[:], h[:])
	return id
}

// SigningBytes is what the author's machine signs and what the change's ID hashes:
// everything but the signature.
func (c Change) SigningBytes() []byte {
	b := make([]byte, 0, 512)
	b = append(append(b, domainChange...), version)
	return c.appendBody(b)
}

// ID names the change. For stored bytes, [ChangeID] is cheaper.
func (c Change) ID() ID { return sha256.Sum256(c.SigningBytes()) }

// ChangeID names the change that b encodes, without decoding it. Of bytes that
// [DecodeChange] would refuse it is meaningless.
func ChangeID(b []byte) ID {
	if len(b) < 2 {
		return ID{}
	}
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || n > uint64(len(b)-1-used) {
		return ID{}
	}
	h := sha256.New()
	h.Write([]byte(domainChange))
	h.Write(b[:1])
	h.Write(b[1+used+int(n):])
	var id ID
	h.Sum(id[:0])
	return id
}

// Sign returns the change with its signature.
func (c Change) Sign(sign Signer) Change {
	c.Sig = sign(c.SigningBytes())
	return c
}

// Verify checks that the machine that holds pub is the change's signer and signed
// it.
func (c Change) Verify(verify Verifier, pub ed25519.PublicKey) error {
	if MachineIDOf(pub) != c.Signer {
		return fmt.Errorf("verify change of %s: the key is not that of machine %s: %w", c.Author, c.Signer, ErrBadSignature)
	}
	if !verify(pub, c.SigningBytes(), c.Sig) {
		return fmt.Errorf("verify change of %s by machine %s: %w", c.Author, c.Signer, ErrBadSignature)
	}
	return nil
}

// EntryHash chains an entry to the one before it.
func EntryHash(actor ActorID, seq uint64, prev ID, change []byte) ID {
	h := sha256.New()
	var head [len(domainEntry) + len(actor) + 8 + len(prev)]byte
	b := append(head[:0], domainEntry...)
	b = append(b, actor[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	h.Write(append(b, prev[:]...))
	h.Write(change)
	var id ID
	h.Sum(id[:0])
	return id
}

// ActorID names the life that the birth begins.
func (b Birth) ActorID() ActorID { return NewActorID(b.PublicKey, b.Nonce) }

// hash is what the first entry chains to, so that the log covers its birth too.
func (b Birth) hash() ID {
	return sha256.Sum256(append([]byte(domainBirth), b.Encode()...))
}

// Last is the sequence number of the batch's last entry.
func (b Batch) Last() uint64 { return b.First + uint64(len(b.Changes)) - 1 }

// start is what the batch's first entry chains to.
func (b Batch) start() ID {
	if b.First == 1 && b.Birth != nil {
		return b.Birth.hash()
	}
	return b.Prev
}

// Hashes returns the hash of each entry of the batch, in order.
func (b Batch) Hashes() []ID {
	hashes := make([]ID, len(b.Changes))
	prev := b.start()
	for i, c := range b.Changes {
		hashes[i] = EntryHash(b.Actor, b.First+uint64(i), prev, c)
		prev = hashes[i]
	}
	return hashes
}

// LastHash is the hash of the batch's last entry.
func (b Batch) LastHash() ID {
	prev := b.start()
	for i, c := range b.Changes {
		prev = EntryHash(b.Actor, b.First+uint64(i), prev, c)
	}
	return prev
}

// Head is the actor's head once the batch is accepted.
func (b Batch) Head() Head { return Head{b.Last(), b.LastHash()} }

// SigningBytes is what the actor's machine signs: the hash of the last entry, and
// with it everything before.
func (b Batch) SigningBytes() []byte {
	h := b.LastHash()
	return append([]byte(domainBatch), h[:]...)
}

// SignBatch returns the batch with its signature.
func SignBatch(b Batch, sign Signer) Batch {
	b.Sig = sign(b.SigningBytes())
	return b
}

// Verify checks the batch's signature. For a batch with a birth it also checks
// that pub is the newborn actor's key.
func (b Batch) Verify(verify Verifier, pub ed25519.PublicKey) error {
	if b.Birth != nil && (b.Birth.ActorID() != b.Actor || !bytes.Equal(pub, b.Birth.PublicKey)) {
		return fmt.Errorf("verify the first batch of actor %s: the birth names another key: %w", b.Actor, ErrBadSignature)
	}
	if !verify(pub, b.SigningBytes(), b.Sig) {
		return fmt.Errorf("verify entries %d to %d of actor %s: %w", b.First, b.Last(), b.Actor, ErrBadSignature)
	}
	return nil
}
