package sim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// newKey derives a key from the seed. Nobody outside the simulation trusts it.
func newKey(seed uint64, name string) ed25519.PrivateKey {
	h := sha256.Sum256(fmt.Appendf(nil, "%d/%s", seed, name))
	return ed25519.NewKeyFromSeed(h[:])
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey {
	return key.Public().(ed25519.PublicKey)
}

// cheapSigner signs as a key that nobody guards: quick, and still different for each
// key and each message, so that what is altered or forged by mistake is found out.
func cheapSigner(pub ed25519.PublicKey) crdt.Signer {
	return func(msg []byte) []byte { return cheapSignature(pub, msg) }
}

func cheapVerifier(pub ed25519.PublicKey, msg, sig []byte) bool {
	return bytes.Equal(sig, cheapSignature(pub, msg))
}

// cheapSignature is FNV-1a (Fowler, Noll, Vo) over the key and the message.
func cheapSignature(pub ed25519.PublicKey, msg []byte) []byte {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, part := range [2][]byte{pub, msg} {
		for _, b := range part {
			h = (h ^ uint64(b)) * prime
		}
	}
	return binary.BigEndian.AppendUint64(nil, h)
}

// found makes the cluster's authorisation log: the first machine begins it, and a root
// admits the others.
func (w *World) found(n int) error {
	w.root = newKey(w.cfg.Seed, "root")
	first := newKey(w.cfg.Seed, machineName(0))
	nonce := bytes.NewReader(binary.BigEndian.AppendUint64(make([]byte, 8), w.cfg.Seed))
	log, err := identity.Begin(identity.BeginConfig{
		Name: "sim", MachineName: machineName(0), RootKey: w.root, MachineKey: first, Clock: identity.ClockAt(w.clockAt(0)),
	}, nonce)
	if err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		if err := w.admit(log, i, w.clockAt(0)); err != nil {
			return err
		}
	}
	w.genesis = log.Genesis()
	for i := range n {
		w.addMachine(i, log.Since(0))
	}
	return nil
}
