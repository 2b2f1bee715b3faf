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

// ID names the change. For stored bytes, [ChangeID] is cheaper.
func (c Change) ID() ID { return ChangeID(c.At.Actor, c.Encode()) }

// ChangeID names the change that b encodes, in the log of an actor. The same words in
// another log are another change: another machine vouches for them. A stub names the
// change that it stands for.
func ChangeID(actor ActorID, b []byte) ID {
	if IsStub(b) {
		return ID(b[1:])
	}
	h := sha256.New()
	var head [len(domainChange) + len(actor)]byte
	h.Write(append(append(head[:0], domainChange...), actor[:]...))
	h.Write(b)
	var id ID
	h.Sum(id[:0])
	return id
}

// EntryHash chains an entry to the one before it. It covers the change by its ID, so
// that a log can be checked by whoever holds no more of a change than that.
func EntryHash(actor ActorID, seq uint64, prev, change ID) ID {
	var buffer [len(domainEntry) + len(actor) + 8 + len(prev) + len(change)]byte
	b := append(buffer[:0], domainEntry...)
	b = append(b, actor[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = append(b, prev[:]...)
	return sha256.Sum256(append(b, change[:]...))
}

// ActorID names the life that the birth begins.
func (b Birth) ActorID() ActorID { return NewActorID(b.PublicKey, b.Nonce) }

// hash is what the first entry chains to, so that the log covers its birth too.
func (b Birth) hash() ID {
	return sha256.Sum256(append([]byte(domainBirth), b.Encode()...))
}

// After returns what the batch says beyond an entry that it holds, not as its last: a batch
// that follows that entry, with the same signature.
func (b Batch) After(h Head) Batch {
	return Batch{Actor: b.Actor, First: h.Seq + 1, Prev: h.Hash, Changes: b.Changes[h.Seq+1-b.First:], Sig: b.Sig}
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

// Names returns the ID of each change of the batch and the hash of its entry, in order.
func (b Batch) Names() (changes, hashes []ID) {
	changes, hashes = make([]ID, len(b.Changes)), make([]ID, len(b.Changes))
	prev := b.start()
	for i, c := range b.Changes {
		changes[i] = ChangeID(b.Actor, c)
		hashes[i] = EntryHash(b.Actor, b.First+uint64(i), prev, changes[i])
		prev = hashes[i]
	}
	return changes, hashes
}

// Hashes returns the hash of each entry of the batch, in order.
func (b Batch) Hashes() []ID {
	_, hashes := b.Names()
	return hashes
}

// LastHash is the hash of the batch's last entry.
func (b Batch) LastHash() ID {
	prev := b.start()
	for i, c := range b.Changes {
		prev = EntryHash(b.Actor, b.First+uint64(i), prev, ChangeID(b.Actor, c))
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
